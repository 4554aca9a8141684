"""`check_tool`: tests the rules of every tool through the port alone, for our tools and yours.

async def test_mine():
    await check_tool(my_tool, {"city": "Lisbon"}, ctx)
"""

import json
from typing import Any, Final

import msgspec
import trio
from attrs import evolve

from agentrail.abc import (
    Error,
    Ok,
    Tool,
    ToolContext,
    ToolListing,
    ToolQuestion,
    ToolUpdate,
    effect_class_of,
    timeout_seconds_of,
)
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.frozen import thawed
from agentrail.messages import JsonObject
from agentrail.testing.orphans import take_census
from agentrail.testing.rule_failures import under_rule

MAX_LABEL_CHARACTERS: Final = 200

_RULE_SECONDS: Final = 60.0


async def check_tool(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> None:
    """Test a tool against the port.

    Args:
        tool: The tool. It runs at most four times.
        arguments: Valid arguments.
        ctx: The context of the calls. Its sandbox should be one for tests.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result.

    Cancellation: Stops the current call.
    """
    skipped = () if getattr(tool, "answered_by", "code") == "code" else _RULES_OF_CODE
    for rule in (rule for rule in TOOL_RULES if rule not in skipped):
        with under_rule(rule, f"tool {tool.name!r}"), trio.fail_after(_RULE_SECONDS):
            await rule(tool, arguments, ctx)


def spec_of(tool: Tool, ctx: ToolContext) -> ToolSpec:
    """Return a tool's specification for a session."""
    listing = ToolListing(
        session_id=ctx.session_id, model=ctx.model, working_dir=ctx.working_dir, user_data=ctx.user_data
    )
    described = tool.description
    return ToolSpec(
        name=tool.name,
        description=described if isinstance(described, str) else described(listing),
        parameters=tool.parameters,
        timeout_seconds=timeout_seconds_of(tool),
    )


async def _can_be_offered(tool: Tool, _arguments: JsonObject, ctx: ToolContext) -> None:
    """Name, description, schema and timeout are such that a model can be told of them."""
    await trio.lowlevel.checkpoint()
    try:
        spec_of(tool, ctx).check()
    except ToolDefinitionError as error:
        raise AssertionError(str(error)) from error


async def _says_the_same_each_time(tool: Tool, _arguments: JsonObject, ctx: ToolContext) -> None:
    """Asked twice it describes itself with the same bytes, or the provider's prompt cache is of no use."""
    await trio.lowlevel.checkpoint()
    first, second = (
        (one.name, one.description, json.dumps(one.parameters))
        for one in (spec_of(tool, ctx), spec_of(tool, ctx))
    )
    assert first == second, f"{first} and {second}"


async def _has_legal_traits(tool: Tool, arguments: JsonObject, _ctx: ToolContext) -> None:
    """What it promises fits together: retries are counted, one that can be asked says how, its label is one short line."""
    await trio.lowlevel.checkpoint()
    retries = getattr(tool, "max_retries", None)
    assert retries is None or (type(retries) is int and retries >= 0), f"max_retries is {retries!r}"
    if effect_class_of(tool) == "reconcilable":
        assert getattr(tool, "reconcile", None) is not None, "it is reconcilable but has no `reconcile`"
    most = getattr(tool, "max_result_bytes", 1)
    assert type(most) is int and most > 0, f"max_result_bytes is {most!r}"  # noqa: PT018 - one statement
    label = getattr(tool, "label", None)
    if label is not None:
        text = label(arguments)
        assert isinstance(text, str), f"label returned a value of type {type(text).__name__}"
        assert text, "label returned the empty text"
        assert "\n" not in text, f"label returned several lines: {text!r}"
        assert len(text) <= MAX_LABEL_CHARACTERS, f"label returned {len(text)} characters"


async def _takes_what_its_schema_allows(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> None:
    """Arguments with which it works are such as its schema allows; unknown ones are not silently lost."""
    await trio.lowlevel.checkpoint()
    spec = spec_of(tool, ctx)
    faults = spec.faults(spec.with_defaults(arguments))
    assert not faults, "; ".join(faults)


async def _gives_a_result(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> None:
    """It returns `Ok`, `Error`, `ToolUpdate` or `ToolQuestion`, whose text is text and whose details are JSON, and leaves its arguments alone."""
    # A separate plain copy, like the one from the runner.
    given = thawed(spec_of(tool, ctx).with_defaults(arguments))
    before = msgspec.json.encode(given, order="deterministic")
    returned: object = await tool.execute(given, ctx)
    assert isinstance(returned, Ok | Error | ToolUpdate | ToolQuestion), (
        f"it returned a value of type {type(returned).__name__}"
    )
    assert isinstance(returned.text, str), f"its text is a value of type {type(returned.text).__name__}"
    try:
        json.dumps(returned.details, allow_nan=False)
    except (TypeError, ValueError) as error:
        message = f"its details are not JSON: {error}"
        raise AssertionError(message) from error
    assert msgspec.json.encode(given, order="deterministic") == before, "it changed its arguments"


async def _can_be_cancelled(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> None:
    """Cancelled before it begins it does nothing: a call is always a checkpoint, and the cancellation is not swallowed."""
    given = spec_of(tool, ctx).with_defaults(dict(arguments))
    returned: object = None
    with trio.CancelScope() as scope:
        scope.cancel(reason="check_tool")
        returned = await tool.execute(given, ctx)
    assert scope.cancelled_caught, f"it returned {returned!r}"
    await trio.lowlevel.checkpoint()


async def _hears_a_stop_while_it_waits(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> None:
    """Stopped while it waits for a process, an answer or another session it ends: the cancellation is not swallowed."""
    waits = trio.Event()

    async def wait(*_: object) -> Any:
        waits.set()
        await trio.sleep_forever()

    given = thawed(spec_of(tool, ctx).with_defaults(arguments))
    waiting = evolve(ctx, process=wait, question=wait, child=wait)
    returned: object = None
    with trio.CancelScope() as call:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await waits.wait()
                call.cancel(reason="check_tool")

            nursery.start_soon(stop)
            returned = await tool.execute(given, waiting)
            nursery.cancel_scope.cancel(reason="it never awaits")
    assert call.cancelled_caught or not waits.is_set(), f"it returned {returned!r}"


async def _leaves_no_process(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> None:
    """When it has answered, all processes that it had started are gone."""
    before = take_census().processes
    given = thawed(spec_of(tool, ctx).with_defaults(arguments))
    await tool.execute(given, ctx)
    left = [name for process, name in take_census().processes.items() if process not in before]
    assert not left, f"left: {'; '.join(left)}"


_RULES_OF_CODE: Final = (_gives_a_result, _can_be_cancelled, _hears_a_stop_while_it_waits, _leaves_no_process)
TOOL_RULES: Final = (
    _can_be_offered,
    _says_the_same_each_time,
    _has_legal_traits,
    _takes_what_its_schema_allows,
    *_RULES_OF_CODE,
)
"""Each rule with its sentence."""
