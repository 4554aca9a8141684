"""What users write is judged by their type checkers as it is by us: right calls pass, wrong ones are refused where they stand."""

import json
import shutil
import typing
from pathlib import Path

import attrs
import pytest

import agentrail
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.session_options import SessionOptions
from scripts.verify_types import run_pyright
from tests.type_checkers import strict_mypy

TOOL = '''
import agentrail


@agentrail.tool(name="sum", timeout_seconds=5)
def add(left: int, right: int) -> int:
    """Add.

    Args:
        left: One number.
        right: Another one.
    """
    return left + right
'''
BEGIN = """

async def begin(supervisor: agentrail.SessionSupervisor) -> None:
    start_session = supervisor.start_session
"""
GIVEN = '''
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

from agentrail import plugins
from agentrail.messages import UserMessage
from agentrail.testing.models import ScriptedModel, says


class Audit(plugins.Plugin[int]):
    def init(self, *, first: int = 0) -> int:
        return first


class Careful:
    def options(self) -> Mapping[str, Any]:
        return {"model": "demo:", "system_prompt": "Be careful."}


class Pool:
    size = 3


@agentrail.tool
async def count_rows(table: str, ctx: agentrail.ToolContext[Pool]) -> int:
    """Count the rows of a table.

    Args:
        table: Which one.
    """
    return assert_type(ctx.deps, Pool).size
'''
RIGHT = """
    await start_session(model="demo:")
    await start_session(model="demo:", system_prompt="Be brief.", session_id="main", scope="acme", group_id=None)
    await start_session(model=ScriptedModel([says("Hello")]), fallback_models=("demo:",), max_retries=1)
    await start_session(model="demo:", tools=[count_rows, add], deps=Pool(), immune_tools=["sum"])
    await start_session(model="demo:", plugins=[Audit, Audit(), (Audit, {"first": 1})], prompt_mode="minimal")
    await start_session(agentrail.SessionOptions(model="demo:", max_turns=3))
    await start_session(blueprint=Careful())
    await start_session(blueprint=Careful(), model="demo:", working_dir=Path("."), sandbox="memory")
    await start_session(model="demo:", budget=agentrail.Budget(max_cost_usd=1.5), restart="permanent", max_turns=3)
    await start_session(model="demo:", messages=[UserMessage(content=())], user_data={"a": [1]}, agents=[agentrail.Agent(name="a", description="b")])
"""
WRONG = """
    await start_session(modle="demo:")
    await start_session(tools=[add])
    await start_session("demo:")
    await start_session(agentrail.SessionOptions(model="demo:"), max_turns=3)
    await start_session(model="demo:", instructions="Be brief.")
    await start_session(model="demo:", tools=add)
    await start_session(model="demo:", max_turns="3")
    await start_session(model="demo:", restart="always")
    await start_session(model="demo:", budget=5)
    await start_session(model=42)
"""
PROGRAM = """
from typing import assert_type

import msgspec


class Weather(msgspec.Struct):
    city: str
    degrees: float


async def main() -> None:
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model="demo:", tools=[add])
        assert_type(session, agentrail.Session)
        assert_type(await session.ask("Hi"), str)
        assert_type(await session.ask("Hi", output=Weather), Weather)
        assert_type(await session.ask("Hi", output=list[int]), list[int])
        assert_type((await session.run("Hi", output=Weather)).output, Weather)
        assert_type(supervisor.sessions(), tuple[agentrail.Session, ...])
        assert_type(await session.status(), agentrail.Status)
        assert_type(await session.prompt("Hi"), agentrail.PromptReceipt)
        async with session.stream("Hi") as cycle:
            async for event in cycle:
                match event:
                    case agentrail.MessageDelta():
                        assert_type(event.delta, str)
                    case agentrail.AgentEnd():
                        break
                    case _:
                        pass
"""
CALLS = 10
MODULES = {
    "right": TOOL + GIVEN + BEGIN + RIGHT.lstrip("\n"),
    "wrong": TOOL + BEGIN + WRONG.lstrip("\n"),
    "program": TOOL + PROGRAM,
    "names": f"import agentrail\nfrom agentrail import {', '.join(agentrail.__all__)}\n\n"
    f"print({', '.join(f'agentrail.{name}, {name}' for name in agentrail.__all__)})\n",
}
ABOUT_CALLS = {"call-arg", "call-overload", "arg-type", "reportCallIssue", "reportArgumentType"}
"""What the checkers call a call that cannot be made."""


def judged_by_mypy(folder):
    """What `mypy --strict` says: module, line and kind of each error."""
    pytest.importorskip("mypy", reason="mypy is not installed: make install")
    done = strict_mypy(folder, "--output=json")
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(Path(one["file"]).stem, one["line"], one["code"]) for one in found if one["severity"] == "error"}


def judged_by_pyright(folder):
    """What pyright says of the same in its strict mode."""
    pytest.importorskip("pyright", reason="pyright is not installed: make install")
    if shutil.which("node") is None:
        pytest.skip("pyright runs on Node, and there is none")
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    found = run_pyright(".", where=folder)["generalDiagnostics"]
    return {(Path(one["file"]).stem, one["range"]["start"]["line"] + 1, one.get("rule", "")) for one in found}


@pytest.fixture(scope="module", params=[judged_by_mypy, judged_by_pyright], ids=["mypy", "pyright"])
def errors(request, tmp_path_factory):
    """What a type checker says of all modules; one run for them, because it reads half of the library for any."""
    folder = tmp_path_factory.mktemp("theirs")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    return request.param(folder)


def calls_in(module):
    return {
        number: text
        for number, text in enumerate(MODULES[module].splitlines(), start=1)
        if text.startswith("    await ")
    }


@pytest.mark.check
@pytest.mark.experience("X-004")
@pytest.mark.parametrize("module", ["right", "program", "names"])
def test_what_is_right_is_accepted(errors, module):
    """Ten ways to start a session; a program whose answers and deps have their types; each name of the façade."""
    assert len(calls_in("right")) == CALLS
    assert [error for error in errors if error[0] == module] == []


@pytest.mark.check
@pytest.mark.experience("X-004")
def test_wrong_calls_are_refused(errors):
    """Ten wrong ones are refused, each in its own line, and nothing else is."""
    assert len(calls_in("wrong")) == CALLS
    refused = {line: kind for module, line, kind in errors if module == "wrong"}
    assert {text for line, text in calls_in("wrong").items() if refused.get(line) not in ABOUT_CALLS} == set()
    assert set(refused) <= set(calls_in("wrong"))


def test_the_keywords_are_the_options():
    """`SessionKeywords` has the options of `SessionOptions` in their order and of their types, all but the model."""
    options = typing.get_type_hints(SessionOptions)
    fields = [one.name for one in attrs.fields(SessionOptions) if one.name != "model"]
    assert typing.get_type_hints(SessionKeywords) == {name: options[name] for name in fields}
    assert [*SessionKeywords.__annotations__] == fields
    assert SessionKeywords.__required_keys__ == frozenset()
