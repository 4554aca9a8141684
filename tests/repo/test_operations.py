"""The files of docs/operations are what they say: each is read by its own program where that is installed, and by us in any case."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import trio
import yaml

from agentrail.cli import command_tree
from agentrail.cli.sandbox_command import SandboxOptions, check_sandbox_options
from agentrail.cli.serve_options import DEFAULT_PORT
from agentrail.gateway.app import ROUTES
from agentrail.gateway.serving import USUAL_LIMITS
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import Limits
from agentrail.sandboxes.remote.container import ContainerLimits, decide_command
from agentrail.sandboxes.remote.operations import SANDBOX_PORT, SANDBOX_TOKEN_VARIABLE
from agentrail.testing.models import ScriptedModel, says
from agentrail.wire.sandbox_address import read_sandbox_address
from tests.gateway.web import serving
from tests.host.hosting import profile

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "operations"
TLS = ROOT / "tests" / "gateway" / "tls"
OPTIONS = HostOptions(profiles=[profile("demo:")])


def read(name: str) -> str:
    """One of the files, without its comments."""
    lines = (FILES / name).read_text(encoding="utf-8").splitlines()
    return "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in lines)


def needs(program: str) -> str:
    """Find a program, or skip with the reason; in CI it has to be there."""
    found = shutil.which(program, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if found is None:
        reason = f"{program} is not installed, which reads the file best"
        if os.environ.get("AGENTRAIL_REQUIRE_SERVICES") and program == "nginx":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(*command: str) -> str:
    """Run a program that finds nothing wrong."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def seconds_of(text: str) -> float:
    """Read a time such as `310s`."""
    return float(text.removesuffix("s"))


def serve_arguments(text: str) -> list[str]:
    """What stands behind `agentrail`, as the command takes it: names of options, and values for those that need one."""
    arguments = text.split()
    command, bound, _ = command_tree.app.parse_args(arguments, print_error=False, exit_on_error=False)
    assert command.__name__ == "serve_application"
    return [*map(str, bound.args)]


# --- nginx


def nginx_values(name: str) -> list[str]:
    """What a directive of the file is given, wherever it stands."""
    return re.findall(rf"\b{name}\s+([^;]+);", read("nginx.conf"))


def test_what_nginx_is_told_fits_the_server_behind_it():
    """Streams are not held back, bodies as large as ours pass, and each time is on the right side of ours."""
    text = read("nginx.conf")
    assert text.count("{") == text.count("}")
    for line in filter(None, map(str.strip, text.splitlines())):
        assert line[-1] in ";{}", line
    assert (nginx_values("proxy_buffering"), nginx_values("gzip")) == (["off"], ["off"])
    (size,) = nginx_values("client_max_body_size")
    assert int(size.removesuffix("m")) << 20 == Limits().max_body_with_attachments_bytes
    (idle,) = nginx_values("keepalive_timeout")
    assert seconds_of(idle) < USUAL_LIMITS.idle_seconds
    (read_timeout,) = nginx_values("proxy_read_timeout")
    assert seconds_of(read_timeout) > OPTIONS.chat_timeout
    assert f"127.0.0.1:{DEFAULT_PORT}" in nginx_values("server")
    headers = nginx_values("proxy_set_header")
    for wanted in (r"Host\s+\$host", r"Upgrade\s+\$http_upgrade", r"Connection\s+\$agentrail_connection"):
        assert any(re.fullmatch(wanted, one) for one in headers), wanted
    (hidden,) = re.findall(r"location = (\S+) \{ deny all", text)
    assert hidden in {route.path for route in ROUTES}


def nginx_around(text: str, folder: Path) -> Path:
    """A whole configuration of nginx with this in it."""
    path = folder / "whole.conf"
    path.write_text(
        f"pid {folder}/pid; error_log stderr; daemon off; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n"
        f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n{text}\n}}\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.check
def test_nginx_takes_its_file(tmp_path):
    """By `nginx -t`."""
    program = needs("nginx")
    text = (FILES / "nginx.conf").read_text(encoding="utf-8")
    for ours, theirs in (("pem", "certificate.pem"), ("key", "key.pem")):
        text = text.replace(f"/etc/ssl/agents.example.{ours}", f"{TLS / theirs}")
    said = run(program, "-t", "-c", f"{nginx_around(text, tmp_path)}")
    assert "syntax is ok" in said
    assert "warn" not in said


@pytest.mark.check
async def test_a_stream_comes_through_nginx_as_it_is_written(tmp_path):
    """The first words are there while the model still speaks; a WebSocket is opened; the name of the caller's server is passed on."""
    program = needs("nginx")
    model = ScriptedModel([says("Hello, ", "world.", pause_seconds=0.4)])
    async with serving(model, allowed_hosts=["agents.example"]) as web:
        port = await free_port()
        text = (FILES / "nginx.conf").read_text(encoding="utf-8")
        text = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", text)
        text = re.sub(r"ssl_certificate.*", "", text).replace(
            f"127.0.0.1:{DEFAULT_PORT}", f"127.0.0.1:{web.address[1]}"
        )
        command = [program, "-c", f"{nginx_around(text, tmp_path)}"]
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                process = await nursery.start(trio.run_process, command)
                try:
                    await wait_for_port(port)
                    await read_through(port)
                finally:
                    process.terminate()


async def read_through(port: int) -> None:
    """A stream, a WebSocket and what is hidden."""
    body = json.dumps({"message": "Hi", "session_id": "main"})
    head = f"POST /stream HTTP/1.1\r\nHost: agents.example\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    came = b""
    async with stream:
        await stream.send_all((head + body).encode())
        while b"Hello, " not in came:
            came += await stream.receive_some()
        assert b" 200 " in came.splitlines()[0]
        assert b"world." not in came  # it is not out yet: what came was not collected
        while b"event: done" not in came or not came.endswith(b"0\r\n\r\n"):
            came += await stream.receive_some()
    upgrade = (
        "GET /ws HTTP/1.1\r\nHost: agents.example\r\nOrigin: http://agents.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: agentrail.v1\r\n\r\n"
    )
    assert b" 101 " in await first_line(port, upgrade)
    hidden = "GET /ready HTTP/1.1\r\nHost: agents.example\r\nConnection: close\r\n\r\n"
    assert b" 403 " in await first_line(port, hidden)


async def first_line(port: int, request: str) -> bytes:
    """How a call is answered."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request.encode())
        return (await stream.receive_some()).splitlines()[0] + b" "


async def free_port() -> int:
    """A port that is free at this moment."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    await listener.aclose()
    return port


async def wait_for_port(port: int) -> None:
    """Wait until a program listens that tells no one when it does."""
    while True:
        try:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        except OSError:
            await trio.sleep(0.02)
        else:
            return


# --- Caddy


def test_what_caddy_is_told_fits_the_server_behind_it():
    """As of nginx."""
    text = read("Caddyfile")
    assert text.count("{") == text.count("}")
    assert "flush_interval -1" in text
    assert f"reverse_proxy 127.0.0.1:{DEFAULT_PORT}" in text
    (size,) = re.findall(r"max_size (\d+)MiB", text)
    assert int(size) << 20 == Limits().max_body_with_attachments_bytes
    (idle,) = re.findall(r"keepalive (\S+)", text)
    assert seconds_of(idle) < USUAL_LIMITS.idle_seconds
    (wait,) = re.findall(r"response_header_timeout (\S+)", text)
    assert seconds_of(wait) > OPTIONS.chat_timeout


@pytest.mark.check
def test_caddy_takes_its_file():
    """By `caddy validate`."""
    run(needs("caddy"), "validate", "--adapter", "caddyfile", "--config", f"{FILES / 'Caddyfile'}")


# --- systemd


def unit_values(name: str) -> list[str]:
    """What a setting of the unit is."""
    return re.findall(rf"^{name}=(.*)$", read("agentrail.service"), re.MULTILINE)


def test_the_unit_starts_what_there_is_and_waits_for_its_end():
    """Its command is one that the command line takes, and systemd kills no server that still drains."""
    (command,) = unit_values("ExecStart")
    program, _, rest = command.partition(" ")
    assert program == "/opt/agentrail/bin/agentrail"
    assert serve_arguments(rest) == ["my_app:app"]
    (stop,) = unit_values("TimeoutStopSec")
    assert float(stop) > OPTIONS.shutdown_timeout
    assert unit_values("KillMode") == ["mixed"]
    assert unit_values("NoNewPrivileges") == unit_values("PrivateTmp") == ["yes"]
    (state,) = unit_values("StateDirectory")
    assert unit_values("Environment") == [f"XDG_DATA_HOME=/var/lib/{state}"]


@pytest.mark.check
def test_systemd_takes_the_unit(tmp_path):
    """By `systemd-analyze verify`; the program that it looks for is put in the place of ours."""
    program = needs("systemd-analyze")
    text = (FILES / "agentrail.service").read_text(encoding="utf-8")
    unit = tmp_path / "agentrail.service"
    unit.write_text(
        text.replace("/opt/agentrail/bin/agentrail serve", f"{sys.executable} serve"), encoding="utf-8"
    )
    assert run(program, "verify", "--man=no", f"{unit}").strip() == ""


# --- the container


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file."""
    text = re.sub(r"\\\n\s*", "", read("Containerfile"))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines()) if word]


def instruction(word: str) -> str:
    """The one of this word."""
    (found,) = (rest for one, rest in instructions() if one == word)
    return found


def test_the_container_file_says_what_can_be():
    """Its command is one that the command line takes, its extra there, its port ours, its user no root."""
    known = set("FROM RUN WORKDIR COPY USER VOLUME ENV EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD".split())  # noqa: SIM905 - one line
    assert {word for word, _ in instructions()} <= known
    command = [*json.loads(instruction("ENTRYPOINT")), *json.loads(instruction("CMD"))]
    assert command[0] == "agentrail"
    assert serve_arguments(" ".join(command[1:])) == ["my_app:app"]
    assert "--token-file" in command  # else it would not start on an address that others reach
    assert command[command.index("--port") + 1] == instruction("EXPOSE") == f"{DEFAULT_PORT}"
    assert int(instruction("USER")) > 0
    (extra,) = re.findall(r"agentrail-\*\.whl\)\[(\w+)\]", instruction("RUN"))
    assert extra in (metadata.metadata("agentrail").get_all("Provides-Extra") or [])
    (path,) = re.findall(rf"127\.0\.0\.1:{DEFAULT_PORT}(/\w+)", instruction("HEALTHCHECK"))
    assert path in {route.path for route in ROUTES if route.scope is None}
    python = tuple(map(int, re.findall(r"python:(\d+)\.(\d+)", instruction("FROM"))[0]))
    assert python >= (3, 11)
    copied = [rest.split()[0] for word, rest in instructions() if word == "COPY"]
    assert copied == ["agentrail-*.whl", "my_app.py"]


@pytest.mark.check
def test_the_container_file_can_be_built(tmp_path):
    """Where a builder is present, and may fetch the base."""
    builder = next(filter(None, map(shutil.which, ("podman", "docker"))), None)
    if builder is None or subprocess.run([builder, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no builder of containers answers here: podman, or docker with its daemon")
    if subprocess.run([builder, "pull", instruction("FROM")], capture_output=True, check=False).returncode:
        pytest.skip(f"{instruction('FROM')} cannot be fetched here")
    shutil.copy(ROOT / "docs" / "examples" / "support_desk" / "support_desk.py", tmp_path / "my_app.py")
    run(builder, "build", "-f", f"{FILES / 'Containerfile'}", f"{tmp_path}")


# --- sandboxes


def sandbox_options(arguments: list[str]) -> SandboxOptions:
    """What a command of a file asks for, as the command line takes it; what would let strangers read along is refused."""
    assert arguments[:2] == ["sandbox", "serve"]
    command, bound, _ = command_tree.app.parse_args(arguments, print_error=False, exit_on_error=False)
    assert command.__name__ == "serve_sandboxes"
    options: SandboxOptions = bound.arguments["options"]
    check_sandbox_options(options)
    return options


def test_the_files_for_sandboxes_say_what_can_be():
    """The image runs our command on our port as no root; the compose file gives its server no other network, bounds, and the token from outside."""
    text = re.sub(r"\\\n\s*", "", read("Sandbox.Containerfile"))
    given = dict(line.split(" ", 1) for line in text.splitlines() if line)
    command = [*json.loads(given["ENTRYPOINT"]), *json.loads(given["CMD"])]
    options = sandbox_options(command[1:])
    assert (options.port, options.shell_fallback) == (SANDBOX_PORT, "unconfined")
    assert given["EXPOSE"] == f"{SANDBOX_PORT}"
    assert int(given["USER"]) > 0
    inside = decide_command(
        "docker", "my-tools", name="n", directory=Path("/d"), skills=None, limits=ContainerLimits()
    )
    assert sandbox_options([*inside[inside.index("my-tools") + 1 :]]).once
    compose = yaml.safe_load((FILES / "compose.yaml").read_text(encoding="utf-8"))
    agents, sandbox = compose["services"]["agents"], compose["services"]["sandbox"]
    assert sandbox["networks"] == ["tools"]
    assert compose["networks"]["tools"] == {"internal": True}
    assert "ports" not in sandbox
    for one in (agents, sandbox):
        assert one["environment"][SANDBOX_TOKEN_VARIABLE].startswith("${")
        assert (FILES / one["build"]["dockerfile"]).is_file()
    assert (sandbox["mem_limit"], sandbox["cpus"], sandbox["cap_drop"]) == ("1g", 1, ["ALL"])
    (named,) = re.findall(r'sandbox="(http\S+)"', (FILES / "compose.yaml").read_text(encoding="utf-8"))
    assert read_sandbox_address(named).url == f"http://sandbox:{SANDBOX_PORT}"
