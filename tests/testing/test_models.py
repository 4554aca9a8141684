"""The models for tests: what a script says is what a provider would send."""

import pytest
import trio

from agentrail.core.protocol.request import (
    Completed,
    EffectId,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    UsageUpdate,
)
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError, Overloaded, ProviderError
from agentrail.messages import Text, Thinking, TokenUsage
from agentrail.testing.models import FunctionModel, ScriptedCall, ScriptedModel, Turn, calls, fails, says

REQUEST = ModelRequest(attempt=EffectId("r1"), model="scripted:x", system=None, messages=(), tools=Toolbox())


async def chunks_of(model, request=REQUEST):
    """Read one whole stream."""
    async with model.open_stream(request) as stream:
        return [chunk async for chunk in stream]


async def test_a_text_comes_in_pieces_and_then_whole():
    """The terminal chunk is the last, and its message is what the deltas add up to."""
    *deltas, usage, last = await chunks_of(ScriptedModel([says("one ", "two")]))
    assert deltas == [TextDelta("one "), TextDelta("two")]
    assert usage == UsageUpdate(TokenUsage(input=10, output=5))
    assert isinstance(last, Completed)
    assert last.message.text == "one two"
    assert last.stop_reason == "end"


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        (
            [[says("one"), says("two")]],
            r"turns\[0\] is \[Turn\(.* expected turns, such as .* in one list and not in lists of it",
        ),
        ([says("one"), "two"], r"turns\[1\] is 'two': expected turns, such as says\('Hello.'\)"),
        (says("one"), r"turns is Turn\(.* in a list"),
        ("one", "turns is 'one': .* in a list"),
        (None, "turns is None"),
    ],
)
def test_a_script_says_what_it_takes(turns, words):
    """A slip is answered where it was made, and not by a crash in the first request."""
    with pytest.raises(OptionError, match=words):
        ScriptedModel(turns)


async def test_a_function_that_gives_no_turn_is_told_so():
    """Sync or async; and what is no function is refused at once."""

    async def late(request):
        return "late"

    for answer in (lambda request: [says("one")], lambda request: None, late):
        with pytest.raises(OptionError, match=r"the function gave .*: expected turns, such as"):
            await chunks_of(FunctionModel(answer))
    with pytest.raises(OptionError, match="answer is 'Hello': expected a function from a ModelRequest"):
        FunctionModel("Hello")


async def test_thinking_comes_first():
    """As a delta, and as a block in front of the text."""
    first, *_, last = await chunks_of(ScriptedModel([Turn(thinking="Hm.", text=("Yes.",))]))
    assert first == ReasoningDelta("Hm.")
    assert last.message.content == (Thinking(text="Hm.", provider="scripted"), Text(text="Yes."))


async def test_calls_carry_what_the_script_wrote():
    """Arguments that are no JSON stay as they are; ids are the script's or made up."""
    turn = Turn(
        calls=(
            ScriptedCall(name="a", arguments='{"x": 1}', call_id="v1"),
            ScriptedCall(name="b", arguments="{", call_id=""),
        )
    )
    last = (await chunks_of(ScriptedModel([turn])))[-1]
    assert last.stop_reason == "tool_use"
    assert [(call.call_id, call.name, call.arguments, call.malformed) for call in last.message.calls] == [
        ("v1", "a", {"x": 1}, None),
        (f"call_{REQUEST.attempt}_1", "b", None, "{"),
    ]


async def test_calls_are_written_from_mappings():
    """`calls` encodes a mapping, and takes text as it is."""
    turn = calls(("a", {"x": 1}), ("b", "{"), text="Let me see.")
    assert turn.text == ("Let me see.",)
    assert [call.arguments for call in turn.calls] == ['{"x":1}', "{"]
    assert calls(("a", {})).text == ()


async def test_a_turn_may_fail_in_the_middle():
    """What was said before comes; then the error, and no terminal chunk."""
    seen = []
    with pytest.raises(Overloaded):  # noqa: PT012 - what came before the error is what is tested
        async with ScriptedModel([fails(Overloaded("later"), after="so far")]).open_stream(REQUEST) as stream:
            async for chunk in stream:
                seen.append(chunk)  # noqa: PERF401 - what came before the error is what is tested
    assert seen == [TextDelta("so far")]


async def test_running_out_of_script_fails_the_request():
    """The message says how long the script is, and what to do."""
    model = ScriptedModel([says("a")])
    await chunks_of(model)
    with pytest.raises(
        ProviderError, match="the script has 1 turns, and this is request 2: write another turn"
    ):
        await chunks_of(model)


async def test_a_script_says_whether_it_was_used_up():
    """Turns that were never asked for are a fault of the test."""
    model = ScriptedModel([says("a"), says("b")])
    await chunks_of(model)
    with pytest.raises(AssertionError, match="1 of 2 turns of the script were never asked for"):
        model.assert_exhausted()
    await chunks_of(model)
    model.assert_exhausted()
    assert model.requests == [REQUEST, REQUEST]


async def test_a_function_may_wait():
    """Sync or async: the request goes in, a turn comes out."""

    async def slowly(request):
        await trio.lowlevel.checkpoint()
        return says(request.model_name)

    assert (await chunks_of(FunctionModel(slowly)))[0] == TextDelta("x")
    assert (await chunks_of(FunctionModel(lambda request: says(request.model))))[0] == TextDelta("scripted:x")


async def test_pauses_are_on_trios_clock(autojump_clock):
    """Before each piece and before the end, in virtual time too."""
    begun_at = autojump_clock.current_time()
    await chunks_of(ScriptedModel([says("a", "b", pause_seconds=10)]))
    assert autojump_clock.current_time() - begun_at == 30


async def test_a_reader_may_leave_in_the_middle():
    """Leaving the block closes the stream: nothing is left for the garbage collector to complain about."""
    model = ScriptedModel([says("a", "b")])
    async with model.open_stream(REQUEST) as stream:
        assert await anext(stream) == TextDelta("a")
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


def test_it_says_what_a_provider_says():
    """Name, capabilities, and a body, as the port wants them."""
    model = ScriptedModel([])
    assert (model.name, model.capabilities("x").context_window, model.encode(REQUEST)) == (
        "scripted",
        128_000,
        b"",
    )
