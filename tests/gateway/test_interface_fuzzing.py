"""Schemathesis runs the page of the interface against a server: no fault of ours, no status, no shape that the page does not tell of."""

from itertools import count

import pytest

from agentrail.host.limits import Limits
from agentrail.host.payloads import Principal
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.conftest import SERVICES
from tests.gateway.programs import HERE, base_of, run_program
from tests.gateway.web import serving

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
PLENTY = Limits(
    messages_per_minute=100_000, messages_burst=100_000, calls_per_minute=100_000, calls_burst=100_000
)
SEED = 20261122

pytestmark = [pytest.mark.check, pytest.mark.services("schemathesis"), pytest.mark.host("H-113")]


def auth(headers):
    """Know one token."""
    is_ann = headers.get("authorization") == "Bearer ann"
    return Principal(tenant_id="acme", user_id="ann", scopes=("use", "inspect")) if is_ann else None


def busy_model():
    """Answers in words, and asks for a tool in each third response."""
    turns = count()
    return FunctionModel(
        lambda _: calls(("shell", {"command": "ls"})) if next(turns) % 3 == 1 else says("Hello.")
    )


async def fuzz(web, *more, checks=CHECKS, config=()):
    """Let it run, and give what it says."""
    argv = [
        SERVICES["schemathesis"], *config, "run", f"{base_of(web)}/openapi.json", f"--checks={checks}", f"--seed={SEED}",
        "--generation-database=none", "--warnings=off", "--no-color", "--request-timeout=5", "--no-shrink", *more,
    ]  # fmt: skip
    return await run_program(argv, seconds=60)


async def test_whatever_is_sent_no_status_comes_that_is_not_on_the_page():
    """On every route, by generated bodies, ids, queries and headers, good ones and bad ones."""
    async with serving(busy_model(), limits=PLENTY, store=MemoryStore()) as web:
        ran = await fuzz(web, "--phases=coverage,fuzzing", "--max-examples=4", "--exclude-path-regex=events")
        assert ran.status == 0, ran.out[-8000:]
        assert web.check.seen > 200


async def test_whatever_is_sent_to_one_session_no_status_comes_that_is_not_on_the_page():
    """Which is there, is asked things, and waits for people; without its token every call is refused."""
    options = {"session_tools": [RecordingTool(name="shell")], "session_plugins": [HumanApproval]}
    async with serving(busy_model(), auth=auth, limits=PLENTY, store=MemoryStore(), **options) as web:
        made = await web.post("/sessions", {"session_id": "main"}, headers={"authorization": "Bearer ann"})
        assert made.status_code == 201
        ran = await fuzz(
            web,
            "--phases=coverage",
            "--mode=positive",
            "--include-path-regex=session_id",
            "--exclude-path-regex=events",
            "--exclude-method=DELETE",
            checks=f"{CHECKS},ignored_auth",
            config=("--config-file", HERE / "schemathesis.toml"),
        )
        assert ran.status == 0, ran.out[-8000:]
        assert web.check.seen > 200
