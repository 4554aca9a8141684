"""The author's door: a class or a function becomes a plugin, and what is left out is filled in."""

import functools

import attrs
import pytest

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.errors import PluginError
from tests.core.plugin_rig import CTX, EVENTS


@attrs.frozen
class Calls:
    seen: tuple[str, ...] = ()


class Marked(p.Plugin[Calls]):
    """Says with its methods what it listens to."""

    def init(self):
        return Calls()

    @p.on(p.BeforeTool)
    def note(self, event, state, ctx):
        return p.Request(p.ReadFile("x"), "t", Calls((*state.seen, event.name)), wait=True)

    @p.on(p.BeforePrompt, p.BeforeSteering, p.RequestDone)
    def listen(self, event, state, ctx):
        return p.Continue(Calls((*state.seen, type(event).__name__)))


class Inherits(Marked):
    @p.on(p.AfterTurn)
    def rest(self, event, state, ctx):
        return p.Continue(Calls())


def test_marked_methods_declare_their_hooks():
    """A plugin of marked methods is asked on their hooks, and on no others (5.1)."""
    assert Marked.hooks == {p.BeforeTool, p.BeforePrompt, p.BeforeSteering}
    assert Inherits.hooks == {p.BeforeTool, p.BeforePrompt, p.BeforeSteering, p.AfterTurn}
    stack, states = load_stack([Marked])
    waits = run_hook(stack, EVENTS[p.BeforeTool], states, CTX)
    assert waits.waiting is not None
    assert Marked().handle(EVENTS[p.BeforePrompt], Calls(), CTX) == p.Continue(Calls(("BeforePrompt",)))
    done = p.RequestDone(tag="t", result=p.FileText(path="x", text=None))
    assert Marked().handle(done, Calls(), CTX) == p.Continue(Calls(("RequestDone",)))
    assert Marked().handle(EVENTS[p.AfterTurn], Calls(), CTX) == p.Continue(Calls())


def test_a_method_that_would_never_be_called_is_refused():
    """A second method for a hook would take the place of the first, which may be a guard; a second name of one may stay."""
    blocks = p.on(p.BeforeTool)(lambda self, event, state, ctx: p.BlockTool("no", state))
    passes = p.on(p.AfterTurn, p.BeforeTool)(lambda self, event, state, ctx: p.Continue(state))
    with pytest.raises(PluginError, match="'one' and 'two' both handle BeforeTool: merge"):
        type("Guard", (p.Plugin,), {"one": blocks, "two": passes})
    named_twice = type("Guard", (p.Plugin,), {"one": blocks, "two": blocks})
    assert type("Below", (named_twice,), {"three": passes}).hooks == {p.AfterTurn, p.BeforeTool}
    for marked in ([Marked.note], []):
        with pytest.raises(PluginError, match=r"write @p\.on\(p\.BeforeTool\)"):
            p.on(*marked)


@pytest.mark.parametrize("decorate", [p.on(p.BeforeTool), p.plugin(init=int)])
def test_an_async_handler_is_refused_where_it_is_written(decorate):
    """Its coroutine would never run, and a guard above priority 99 would let every call pass."""

    async def judge(*_):
        """Wait for a verdict."""

    with pytest.raises(PluginError, match="judge' is async, but a plugin cannot wait: return a Request"):
        decorate(judge)


def _stateless(**members):
    return type("Guard", (p.Plugin,), {"init": lambda self: None, **members})


ANY = p.Continue(None)
OTHERS = [
    (lambda event, state, ctx, extra: ANY),
    (lambda event, state: ANY),
    (lambda event, state, *, ctx: ANY),
]


@pytest.mark.parametrize("function", OTHERS)
def test_a_handler_with_other_parameters_is_refused_where_it_is_written(function):
    """It failed at each hook: a guard refused every call, and another plugin was never heard."""
    words = "must take event, state, ctx: it is called with exactly these"
    with pytest.raises(PluginError, match=words):
        p.plugin(init=int)(function)
    for members in (
        {"handle": staticmethod(function)},
        {"judge": p.on(p.BeforeTool)(staticmethod(function))},
    ):
        with pytest.raises(PluginError, match=words):
            _stateless(**members)
    with pytest.raises(PluginError, match=r"'Guard\.migrate' must take old_version, state"):
        _stateless(migrate=lambda self, state: state)


def test_a_handler_may_take_its_arguments_by_any_names():
    """Also together, with others that have defaults, or as a method without `self`."""
    for function in (lambda *_: ANY, lambda event, state, ctx, extra=1: ANY, lambda a, b, c: ANY):
        p.plugin(init=int)(function)
        _stateless(handle=staticmethod(function), judge=p.on(p.BeforeTool)(staticmethod(function)))

    @functools.wraps(OTHERS[0])
    def with_one_more(*given):
        return OTHERS[0](*given, 1)

    assert p.plugin(init=int)(with_one_more)(None, None, None) is ANY


def test_the_helpers_say_what_an_action_is():
    """`action_type`, `extract_state`, `short_circuit`, `is_plugin` (5.1)."""
    assert p.action_type(p.Abort("x", 1)) is p.Abort
    assert p.extract_state(p.Emit("a", 1, 7)) == 7
    assert p.short_circuit(p.Skip(1))
    assert not p.short_circuit(p.Intervene("x", 1))
    with pytest.raises(TypeError, match="None is not an action: expected one of Continue, Emit, Intervene"):
        p.action_type(None)
    assert p.is_plugin(Marked)
    assert p.is_plugin(Marked())
    assert not p.is_plugin(dict)
    assert not p.is_plugin(None)


def test_a_function_may_be_a_plugin():
    """`@p.plugin` takes the members as options, and the function stays callable (5.1)."""

    @p.plugin(priority=42, init=Calls, hooks=(p.BeforeTool,), version="3", on_error="open")
    def audit(event, state, ctx):
        """Notes a call."""
        return p.Continue(Calls((*state.seen, event.name)))

    stack, states = load_stack([(audit, {"seen": ("before",)})])
    (member,) = stack.members
    assert (member.name, member.version, member.priority, member.on_error) == ("audit", "3", 42, "open")
    assert member.hooks == {p.BeforeTool}
    assert run_hook(stack, EVENTS[p.BeforeTool], states, CTX).states["audit"] == Calls(("before", "shell"))
    assert audit(EVENTS[p.BeforeTool], Calls(), CTX) == p.Continue(Calls(("shell",)))
    assert audit.describe() == "Notes a call."
    undocumented = p.plugin(init=lambda: 0, name="quiet")(lambda e, s, c: p.Continue(s))
    assert (undocumented.describe(), undocumented.state_type) == ("quiet", None)
