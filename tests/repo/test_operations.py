"""The files of docs/operations are read by their own programs, where those are installed; `make lint-repository` holds them against the server."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from agentrail.cli.serve_options import DEFAULT_PORT
from agentrail.stores.postgres_private import free_ports
from agentrail.testing.models import ScriptedModel, says
from tests.gateway.web import serving

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "operations"
TLS = ROOT / "tests" / "gateway" / "tls"


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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- nginx


def nginx_around(text: str, folder: Path) -> Path:
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
        (port,) = free_ports(1)
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
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request.encode())
        return (await stream.receive_some()).splitlines()[0] + b" "


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


@pytest.mark.check
def test_caddy_takes_its_file():
    """By `caddy validate`."""
    run(needs("caddy"), "validate", "--adapter", "caddyfile", "--config", f"{FILES / 'Caddyfile'}")


# --- systemd


@pytest.mark.check
def test_systemd_takes_the_unit(tmp_path):
    """By `systemd-analyze verify`, also as the template of several nodes; the program that it looks for is put in the place of ours."""
    program = needs("systemd-analyze")
    for name, added in (("agentrail.service", ""), ("agentrail@.service", "agentrail-node.conf")):
        text = (FILES / "agentrail.service").read_text(encoding="utf-8")
        if added:
            text += (FILES / added).read_text(encoding="utf-8")
        unit = tmp_path / name
        unit.write_text(
            text.replace("/opt/agentrail/bin/agentrail serve", f"{sys.executable} serve"), encoding="utf-8"
        )
        assert run(program, "verify", "--man=no", f"{unit}").strip() == ""


# --- the container


@pytest.mark.check
def test_the_container_file_can_be_built(tmp_path):
    """Where a builder is present, and may fetch the base."""
    builder = next(filter(None, map(shutil.which, ("podman", "docker"))), None)
    if builder is None or subprocess.run([builder, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no builder of containers answers here: podman, or docker with its daemon")
    (base,) = re.findall(r"^FROM (\S+)", (FILES / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    if subprocess.run([builder, "pull", base], capture_output=True, check=False).returncode:
        pytest.skip(f"{base} cannot be fetched here")
    shutil.copy(ROOT / "docs" / "examples" / "support_desk" / "support_desk.py", tmp_path / "my_app.py")
    run(builder, "build", "-f", f"{FILES / 'Containerfile'}", f"{tmp_path}")
