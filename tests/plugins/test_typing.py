"""A wrong state type is an error of the type checker, before anything runs (issue 5)."""

import pytest

from tests.type_checkers import strict_mypy

pytest.importorskip("mypy", reason="mypy is not installed: make install")
pytestmark = pytest.mark.check  # mypy takes half a minute

HEAD = """
import attrs
from agentrail import plugins as p

@attrs.frozen
class Calls:
    count: int = 0

class Audit(p.Plugin[Calls]):
    def init(self, *, first: int = 0) -> Calls:
        return Calls(first)
"""
GOOD = """
    def handle(self, event: p.HookEvent, state: Calls, ctx: p.Context) -> p.Action[Calls]:
        match event:
            case p.BeforeTool(name="shell"):
                return p.BlockTool("no", state, emits=(("blocked", {"n": 1}),))
            case p.BeforeRequest():
                return p.Continue(attrs.evolve(state, count=1), context={"k": None})
            case p.AfterTurn():
                return p.Emit("said", 1, state)
        return p.Intervene("go on", state)

@p.plugin(priority=500, init=Calls)
def count(event: p.HookEvent, state: Calls, ctx: p.Context) -> p.Action[Calls]:
    return p.Continue(Calls(state.count + 1))
"""
BAD = {
    "the state of another plugin": """
    def handle(self, event: p.HookEvent, state: Calls, ctx: p.Context) -> p.Action[Calls]:
        return p.Continue("calls")
""",
    "no state": """
    def handle(self, event: p.HookEvent, state: Calls, ctx: p.Context) -> p.Action[Calls]:
        return p.Intervene("go on", None)
""",
    "another parameter": """
    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[Calls]:
        return p.Continue(Calls())
""",
    "no action": """
    def handle(self, event: p.HookEvent, state: Calls, ctx: p.Context) -> p.Action[Calls]:
        return Calls()
""",
    "a function with another first state": """
@p.plugin(init=int)
def count(event: p.HookEvent, state: Calls, ctx: p.Context) -> p.Action[Calls]:
    return p.Continue(state)
""",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What mypy says of each module; one run for all of them, because it reads half of the library for any."""
    folder = tmp_path_factory.mktemp("theirs")
    modules = {"good": GOOD, **{f"bad_{position}": tail for position, tail in enumerate(BAD.values())}}
    for name, tail in modules.items():
        (folder / f"{name}.py").write_text(HEAD + tail)
    done = strict_mypy(folder)
    lines = done.stdout.splitlines()
    assert "checked" in lines[-1], done.stderr
    return {name: [line for line in lines if f"{name}.py:" in line] for name in modules}


def test_a_plugin_as_documented_passes_the_type_checker(said):
    """Both forms pass `mypy --strict`, with options of their own and every way to answer."""
    assert said["good"] == []


@pytest.mark.parametrize("position", range(len(BAD)), ids=BAD)
def test_a_wrong_state_is_a_type_error(said, position):
    """It is refused at the line that is wrong."""
    assert any(": error: " in line for line in said[f"bad_{position}"])
