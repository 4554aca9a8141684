"""The services that some tests need: who has them not skips those tests, and CI fails them."""

import os
import shutil
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from trio.testing import MockClock

from agentrail.testing.clock import FakeClock, threads_hold
from tests.postgres import postgres_environ, postgres_server, postgres_session, postgres_url

__all__ = ["postgres_server", "postgres_session", "postgres_url"]  # fixtures

ROOT: Final = Path(__file__).parent.parent
_NO_MODULE: Final = ModuleSpec("nothing", None, origin="/nowhere")


def _program(*names: str) -> Path:
    found = (path for name in names if (path := shutil.which(name)))
    return Path(next(found, f"/nowhere/{names[0]}"))


SERVICES: Final = {
    "aimock": ROOT / ".peers" / "node_modules" / ".bin" / "llmock",
    "litellm": ROOT / ".peers" / "litellm" / "bin" / "litellm",
    "schemathesis": ROOT / ".peers" / "clients" / "bin" / "st",
    "openapi-python-client": ROOT / ".peers" / "clients" / "bin" / "openapi-python-client",
    "ws": ROOT / ".peers" / "node_modules" / "ws" / "package.json",
    "ai": ROOT / ".peers" / "ai" / "node_modules" / "ai" / "dist" / "index.mjs",
    "ai-openai": ROOT
    / ".peers"
    / "ai"
    / "node_modules"
    / "@ai-sdk"
    / "openai-compatible"
    / "dist"
    / "index.mjs",
    "ag-ui": ROOT / ".peers" / "ag-ui" / "node_modules" / "@ag-ui" / "client" / "dist" / "index.mjs",
    "openai": ROOT / ".peers" / "openai" / "node_modules" / "openai" / "index.mjs",
    "acp": ROOT / ".peers" / "acp" / "node_modules" / "@agentclientprotocol" / "sdk" / "package.json",
    "acpx": ROOT / ".peers" / "acp" / "node_modules" / "acpx" / "dist" / "cli.js",
    "node 22": ROOT / ".peers" / "mcp" / "node_modules" / "node" / "bin" / "node",
    "a2a": ROOT / ".peers" / "a2a" / "node_modules" / "@a2a-js" / "sdk" / "dist",
    "server-everything": ROOT / ".peers" / "mcp" / "node_modules" / ".bin" / "mcp-server-everything",
    "mcp-conformance": ROOT
    / ".peers"
    / "mcp"
    / "node_modules"
    / "@modelcontextprotocol"
    / "conformance"
    / "dist"
    / "index.js",
    "mcp-clients": ROOT / ".peers" / "mcp-clients" / "node_modules" / ".bin" / "mcp-inspector",
    "mcp-1": ROOT / ".peers" / "mcp-1" / "bin" / "python",
    "server-filesystem": ROOT / ".peers" / "mcp" / "node_modules" / ".bin" / "mcp-server-filesystem",
    "node": _program("node"),
    # The shell has no windows of its own to draw: a page takes 1.0 s of a core there, and 1.9 s in the whole browser.
    "chromium": _program("chromium-headless-shell", "chromium"),
    "curl": _program("curl"),
    "nginx": Path(shutil.which("nginx", path=postgres_environ()["PATH"]) or "/nowhere"),
    "npm": _program("npm"),
    "playwright": Path((find_spec("playwright") or _NO_MODULE).origin or "/nowhere"),
    "axe-core": ROOT / ".peers" / "console" / "node_modules" / "axe-core" / "axe.min.js",
    "console tools": ROOT / ".peers" / "console" / "node_modules" / ".bin" / "biome",
    "pgbouncer": Path(shutil.which("pgbouncer", path=postgres_environ()["PATH"]) or "/nowhere"),
    "prometheus": Path(
        shutil.which("promtool") or ROOT / ".peers" / "prometheus" / "usr" / "bin" / "promtool"
    ),
}
_REMEDIES: Final = {
    "schemathesis": "run `make clients`, which needs pip and a package index",
    "openapi-python-client": "run `make clients`, which needs pip and a package index",
    "node": "install Node 20 or newer",
    "chromium": "scripts/install_chromium.sh does it",
    "curl": "install it with your package manager",
    "nginx": "scripts/install_nginx.sh does it, which needs apt-get",
    "npm": "install Node 20 or newer",
    "playwright": "run `make install`, which needs pip and a package index",
    "axe-core": "scripts/install_console_tools.sh does it, which needs npm",
    "console tools": "scripts/install_console_tools.sh does it, which needs npm",
    "prometheus": "scripts/install_prometheus.sh does it, which needs apt-get",
    "pgbouncer": "scripts/install_postgres.sh does it, which needs apt-get",
}
# Installed by a target of its own, and so never missing.
OPTIONAL: Final = {"litellm": "run `make litellm`, which needs pip and a package index"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("services"):
        for name in marker.args:
            need_service(name)


@pytest.fixture
def autojump_clock() -> Iterator[MockClock]:
    """pytest-trio's own, which also waits for threads: a deadline passed while one of the library got no turn."""
    clock = FakeClock()
    with threads_hold(clock):
        yield clock


@pytest.fixture(scope="session")
def aimock_command() -> Path:
    """The command that starts aimock; for tests marked `services("aimock")`."""
    return SERVICES["aimock"]


@pytest.fixture(scope="session")
def litellm_command() -> Path:
    """The command that starts the LiteLLM proxy; for tests marked `services("litellm")`."""
    return SERVICES["litellm"]


@pytest.fixture(scope="session")
def ai_sdk() -> Path:
    """The module of the `ai` SDK for node; for tests marked `services("ai")`."""
    return SERVICES["ai"]


@pytest.fixture(scope="session")
def ag_ui() -> Path:
    """The module of the AG-UI client for node; for tests marked `services("ag-ui")`."""
    return SERVICES["ag-ui"]


@pytest.fixture(scope="session")
def openai_js() -> Path:
    """The module of the `openai` client for node; for tests marked `services("openai")`."""
    return SERVICES["openai"]


@pytest.fixture(scope="session")
def a2a_js() -> Path:
    """The folder of the A2A client for node; for tests marked `services("a2a")`."""
    return SERVICES["a2a"]


def need_service(name: str) -> None:
    """Skip the test that runs where a service is not installed; in CI it fails."""
    command = SERVICES[name]
    if command.exists():
        return
    remedy = {**_REMEDIES, **OPTIONAL}.get(name, "run `make peers`, which needs npm")
    reason = f"{name} is not installed: {remedy}"
    if os.environ.get("AGENTRAIL_REQUIRE_SERVICES") and name not in OPTIONAL:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
