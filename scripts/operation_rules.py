"""Rules of the files in docs/operations: their times, sizes, ports and commands fit the server. `scripts.repository_rules` runs them.

`tests/repo/test_operations.py` gives the files to nginx, Caddy, systemd and a builder of containers.
"""

import json
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from agentrail.cli import command_tree
from agentrail.cli.sandbox_command import SandboxOptions, check_sandbox_options
from agentrail.cli.serve_options import DEFAULT_PORT
from agentrail.errors import AgentrailError
from agentrail.gateway.app import ROUTES
from agentrail.gateway.serving import USUAL_LIMITS
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import Limits
from agentrail.sandboxes.remote.container import ContainerLimits, decide_command
from agentrail.sandboxes.remote.operations import SANDBOX_PORT, SANDBOX_TOKEN_VARIABLE
from agentrail.wire.sandbox_address import read_sandbox_address
from scripts.docsite.nav import ROOT
from scripts.source_rules import Faults, text_of
from tests.host.hosting import profile

FILES: Final = ROOT / "docs" / "operations"
OPTIONS: Final = HostOptions(profiles=[profile("demo:")])
BODY_MIB: Final = Limits().max_body_with_attachments_bytes >> 20
INSTRUCTIONS: Final = frozenset(
    ("FROM", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "ENV", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD")
)  # fmt: skip
OLDEST: Final = (3, 11)

Checks: TypeAlias = Iterator[tuple[str, bool]]
"""What must hold of a file, and whether it does."""


def plain(name: str) -> str:
    """Return a file without its comments."""
    return "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in text_of(FILES / name).splitlines())


def seconds_of(times: list[str]) -> float:
    """Return the one time, such as `310s`."""
    (time,) = times
    return float(time.removesuffix("s"))


def times_fit(idle: list[str], wait: list[str]) -> Checks:
    """Check the times of a proxy."""
    yield "idle connections end before ours", seconds_of(idle) < USUAL_LIMITS.idle_seconds
    yield "an answer may take as long as ours", seconds_of(wait) > OPTIONS.chat_timeout


def serves(words: list[str]) -> bool:
    """Return whether `agentrail` takes these words, and serves the application of the pages."""
    command, bound, _ = command_tree.app.parse_args(words, print_error=False, exit_on_error=False)
    return command.__name__ == "serve_application" and [*map(str, bound.args)] == ["my_app:app"]


def nginx() -> Checks:
    """Check that streams are not held back, bodies as large as ours pass, and times are on the right side of ours."""
    text = plain("nginx.conf")

    def values(name: str) -> list[str]:
        return re.findall(rf"\b{name}\s+([^;]+);", text)

    yield "braces come in pairs", text.count("{") == text.count("}")
    yield "lines end", all(line[-1] in ";{}" for line in map(str.strip, text.splitlines()) if line)
    yield "no buffering, no gzip", (values("proxy_buffering"), values("gzip")) == (["off"], ["off"])
    yield f"bodies have {BODY_MIB} MiB", values("client_max_body_size") == [f"{BODY_MIB}m"]
    yield from times_fit(values("keepalive_timeout"), values("proxy_read_timeout"))
    yield "the port is ours", f"127.0.0.1:{DEFAULT_PORT}" in values("server")
    for header in (r"Host\s+\$host", r"Upgrade\s+\$http_upgrade", r"Connection\s+\$agentrail_connection"):
        yield f"passes {header} on", any(re.fullmatch(header, one) for one in values("proxy_set_header"))
    hidden = re.findall(r"location = (\S+) \{ deny all", text)
    yield "hides a route of ours", len(hidden) == 1 and {*hidden} <= {route.path for route in ROUTES}


def caddy() -> Checks:
    """Check the same of Caddy."""
    text = plain("Caddyfile")
    yield "braces come in pairs", text.count("{") == text.count("}")
    yield "no buffering", "flush_interval -1" in text
    yield "the port is ours", f"reverse_proxy 127.0.0.1:{DEFAULT_PORT}" in text
    yield f"bodies have {BODY_MIB} MiB", re.findall(r"max_size (\d+)MiB", text) == [f"{BODY_MIB}"]
    yield from times_fit(
        *(re.findall(rf"{name} (\S+)", text) for name in ("keepalive", "response_header_timeout"))
    )


def unit() -> Checks:
    """Check that systemd starts our command, and kills no server that still drains."""
    text = plain("agentrail.service")

    def values(name: str) -> list[str]:
        return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)

    program, *words = values("ExecStart")[0].split()
    yield "starts agentrail", program == "/opt/agentrail/bin/agentrail" and serves(words)
    yield "waits for a server that drains", seconds_of(values("TimeoutStopSec")) > OPTIONS.shutdown_timeout
    yield "asks the server alone to end", values("KillMode") == ["mixed"]
    yield "gives no privileges", values("NoNewPrivileges") == values("PrivateTmp") == ["yes"]
    data = [f"XDG_DATA_HOME=/var/lib/{one}" for one in values("StateDirectory")]
    yield "keeps data in its directory", len(data) == 1 and values("Environment") == data


def instructions_of(name: str) -> dict[str, list[str]]:
    """Return the instructions of a container file."""
    found: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n\s*", "", plain(name)).splitlines():
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest)
    found.pop("", None)
    return found


def container() -> Checks:
    """Check that the container has our command, extra and port, a route for its health, and a user who is not root."""
    given = instructions_of("Containerfile")
    (start,), (usual,), (port,) = given["ENTRYPOINT"], given["CMD"], given["EXPOSE"]
    (user,), (run,) = given["USER"], given["RUN"]
    command: list[str] = json.loads(start) + json.loads(usual)
    program, words = command[0], command[1:]
    yield "has known instructions", given.keys() <= INSTRUCTIONS
    yield "starts agentrail", program == "agentrail" and serves(words)
    yield "has a token, as others reach its address", "--token-file" in words
    yield "the port is ours", words[words.index("--port") + 1] == port == f"{DEFAULT_PORT}"
    yield "its user is not root", int(user) > 0
    extras = [
        one for group in re.findall(r"agentrail-\*\.whl\)\[([\w,]+)\]", run) for one in group.split(",")
    ]
    yield (
        "installs an extra",
        bool(extras) and {*extras} <= {*metadata.metadata("agentrail").get_all("Provides-Extra", [])},
    )
    health = re.findall(rf"127\.0\.0\.1:{DEFAULT_PORT}(/\w+)", given["HEALTHCHECK"][0])
    yield (
        "asks an open route for its health",
        len(health) == 1 and {*health} <= {one.path for one in ROUTES if one.scope is None},
    )
    (python,) = re.findall(r"python:(\d+)\.(\d+)", given["FROM"][0])
    yield "has a Python of ours", (*map(int, python),) >= OLDEST
    yield (
        "copies the wheel and the program",
        [one.split()[0] for one in given["COPY"]] == ["agentrail-*.whl", "my_app.py"],
    )


def sandbox_options(words: list[str]) -> SandboxOptions | None:
    """Return what a command of a sandbox server asks for; None if strangers could read along."""
    command, bound, _ = command_tree.app.parse_args(words, print_error=False, exit_on_error=False)
    options: SandboxOptions = bound.arguments["options"]
    try:
        check_sandbox_options(options)
    except AgentrailError:
        return None
    return options if command.__name__ == "serve_sandboxes" else None


def sandboxes() -> Checks:
    """Check the image of sandboxes, and that Compose gives their server no other network, bounds, and a token from outside."""
    given = instructions_of("Sandbox.Containerfile")
    options = sandbox_options([*json.loads(given["ENTRYPOINT"][0]), *json.loads(given["CMD"][0])][1:])
    yield (
        "serves unconfined on our port",
        options is not None and (options.port, options.shell_fallback) == (SANDBOX_PORT, "unconfined"),
    )
    yield "the port is ours", given["EXPOSE"] == [f"{SANDBOX_PORT}"]
    yield "its user is not root", int(given["USER"][0]) > 0
    inside = decide_command(
        "docker", "my-tools", name="n", directory=Path("/d"), skills=None, limits=ContainerLimits()
    )
    once = sandbox_options([*inside[inside.index("my-tools") + 1 :]])
    yield "a container serves one sandbox", once is not None and once.once
    compose = yaml.safe_load(text_of(FILES / "compose.yaml"))
    agents, sandbox = compose["services"]["agents"], compose["services"]["sandbox"]
    yield (
        "a network of its own",
        sandbox["networks"] == ["tools"] and compose["networks"]["tools"] == {"internal": True},
    )
    yield "no port to the outside", "ports" not in sandbox
    for one in (agents, sandbox):
        yield "the token comes from outside", one["environment"][SANDBOX_TOKEN_VARIABLE].startswith("${")
        yield "builds a file of this folder", (FILES / one["build"]["dockerfile"]).is_file()
    for one, volume in (("agents", "data"), ("agents-2", "data-2")):
        node = compose["services"][one]
        yield (
            "a node has its own address",
            node["environment"]["AGENTRAIL_ADVERTISE"] == f"http://{one}:{DEFAULT_PORT}",
        )
        yield "a node has its own directory", node["volumes"][0] == f"{volume}:/data"
    yield "has bounds", (sandbox["mem_limit"], sandbox["cpus"], sandbox["cap_drop"]) == ("1g", 1, ["ALL"])
    (named,) = re.findall(r'sandbox="(http\S+)"', text_of(FILES / "compose.yaml"))
    yield "agents find it", read_sandbox_address(named).url == f"http://sandbox:{SANDBOX_PORT}"


def nodes() -> Checks:
    """Check the unit of several nodes, which replaces the command of the other one."""
    (start,) = re.findall(
        r"^ExecStart=(\S.*)$", plain("agentrail-node.conf").replace("%i", "8701"), re.MULTILINE
    )
    yield "the command is ours", serves(start.split()[1:])
    yield "it replaces the other command", "\nExecStart=\n" in plain("agentrail-node.conf")
    yield (
        "its address is its port",
        "--port 8701" in start and "http://127.0.0.1:%i" in plain("agentrail-node.conf"),
    )


def operation_files() -> Faults:
    """Hold the files of docs/operations against the server."""
    rules = {
        "nginx.conf": nginx,
        "Caddyfile": caddy,
        "agentrail.service": unit,
        "Containerfile": container,
        "sandboxes": sandboxes,
        "agentrail-node.conf": nodes,
    }
    for name, rule in rules.items():
        yield from (f"docs/operations, {name}: expected: {wanted}" for wanted, holds in rule() if not holds)
