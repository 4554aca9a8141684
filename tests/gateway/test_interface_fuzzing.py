"""Schemathesis runs the page of the interface against a server: no fault of ours, no status, no shape that the page does not tell of."""

from itertools import count

import pytest

from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.conftest import SERVICES
from tests.gateway.attacks.wire import FREE
from tests.gateway.callers import auth, by
from tests.gateway.programs import base_of, run_program
from tests.gateway.web import serving

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SEED = 20261122
PROCESSOR_SECONDS = 60
"""Of one run, which takes less than ten."""

pytestmark = [pytest.mark.check, pytest.mark.services("schemathesis"), pytest.mark.host("H-113")]


def busy_model():
    """Answers in words, and asks for a tool in each third response."""
    turns = count()
    return FunctionModel(
        lambda _: calls(("shell", {"command": "ls"})) if next(turns) % 3 == 1 else says("Hello.")
    )


class Fuzzer:
    def __init__(self, web, folder, *, headers="", **parameters):
        self.web = web
        self.config = folder / "schemathesis.toml"
        given = "".join(f'"{name.replace("__", ".")}" = "{value}"\n' for name, value in parameters.items())
        self.config.write_text(f"{headers}\n[parameters]\n{given}", encoding="utf-8")

    async def run(self, *more, checks=CHECKS):
        """Let it run; whatever it finds fails the test, and so does a run without an end.

        That is counted in processor time, since neighbours may take the processors. A call that hangs is its own failure.
        """
        argv = [
            "/bin/sh", "-c", f'ulimit -t {PROCESSOR_SECONDS}; exec "$@"', "sh",
            SERVICES["schemathesis"], "--config-file", self.config, "run", f"{base_of(self.web)}/openapi.json",
            f"--checks={checks}", f"--seed={SEED}", "--generation-database=none", "--warnings=off", "--no-color",
            "--request-timeout=5", "--no-shrink", *more,
        ]  # fmt: skip
        ran = await run_program(argv, seconds=10 * PROCESSOR_SECONDS)
        assert ran.status == 0, ran.out[-8000:]

    @property
    def succeeded(self):
        """The operations of which a call succeeded: where all are refused for the same reason, nothing was tried."""
        return {name for (name, status), _ in self.web.check.answered.items() if status < 400}


async def test_whatever_is_sent_no_status_comes_that_is_not_on_the_page(tmp_path):
    """On every route that names no session, by generated bodies, queries and headers, good ones and bad ones."""
    async with serving(busy_model(), limits=FREE, store=MemoryStore()) as web:
        fuzzer = Fuzzer(web, tmp_path, **{"header__X-Agentrail-User": "local"})
        await fuzzer.run("--phases=fuzzing", "--max-examples=20", "--exclude-path-regex=session_id")
        # A message may be empty beside attachments, so few bodies that are drawn say something: each field once as it should be.
        await fuzzer.run("--phases=coverage", "--mode=positive", "--include-path=/chat")
        assert fuzzer.succeeded > {"post_chat", "post_sessions", "get_sessions", "get_inspect_tree"}


async def test_whatever_is_sent_to_one_session_no_status_comes_that_is_not_on_the_page(tmp_path):
    """Which is there, is asked things, and waits for people, on every route that names one; without its token every call is refused."""
    options = {"session_tools": [RecordingTool(name="shell")], "session_plugins": [HumanApproval]}
    async with serving(busy_model(), auth=auth, limits=FREE, store=MemoryStore(), **options) as web:
        answer = await web.post("/chat", {"session_id": "main", "message": "Hi"}, headers=by("boss"))
        parameters = {"path__session_id": "main", "path__request_id": answer.json()["request_id"]}
        parameters["header__X-Agentrail-User"] = "boss"
        fuzzer = Fuzzer(web, tmp_path, headers='headers = { Authorization = "Bearer boss" }', **parameters)
        named = ("--phases=coverage", "--mode=positive", "--include-path-regex=session_id")
        # The events of one that goes on end with it alone, and so does a call of them: they are asked for behind its end.
        alone = ("--exclude-path-regex=events", "--exclude-method=DELETE")
        await fuzzer.run(*named, *alone, checks=f"{CHECKS},ignored_auth")
        (await web.client.delete("/sessions/main", headers=by("boss"))).raise_for_status()
        await fuzzer.run("--phases=coverage", "--include-path-regex=events")
        changing = {"prompt", "steer", "abort", "compact", "fork", "rewind"}
        assert fuzzer.succeeded > {f"post_session_{name}" for name in changing}
