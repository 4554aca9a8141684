"""Nested values at every door: taken whole, or refused by a typed error. No session crashes, and none has a record that cannot be read."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import example, given, strategies as st
from trio import fail_after

from agentrail import ToolContext, open_supervisor
from agentrail.abc import Error, Ok
from agentrail.abc.store import OwedRow, decoded_rows
from agentrail.cli.permissions_command import _call as call_of_arguments
from agentrail.config.config_file import read_agent, read_permissions, read_toml
from agentrail.config.imported_permissions import read_claude_settings
from agentrail.config.skill_file import read_skill
from agentrail.config.trust import decode_trust
from agentrail.core.journal import record as bodies
from agentrail.core.journal.exports import read_export
from agentrail.core.journal.jsonl import decode_line
from agentrail.core.session import state_codec
from agentrail.core.session.receipts import PromptReceipt
from agentrail.core.wire.codec import decode_event, decode_signal
from agentrail.core.wire.hook_codec import decode_hook_event
from agentrail.errors import AgentrailError
from agentrail.events import ApprovalRequired, AskUser, ClientCall
from agentrail.frozen import MAX_LEVELS
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_parser import read_object
from agentrail.gateway.socket_frames import decode_frame
from agentrail.gateway.tokens import decode_tokens
from agentrail.host.agent_profiles import check_metadata
from agentrail.host.quotas import Limits
from agentrail.host.webhook_delivery import LOGGER, decode_awaited, decode_owed_message
from agentrail.orphaned_processes import _noted_in
from agentrail.plugins import HumanApproval
from agentrail.remote import command_results, frame_codec
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.remote.operations import OpenRequest, UnreadableWire, decode_as
from agentrail.stores.sqlite_files import lock_path, writer_of
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.client import ClientTool
from agentrail.tools.function import tool
from agentrail.tools.python import decide_pictures as pictures_of
from agentrail.web.page_text import UnreadableDocument, _read_answer
from agentrail.wire import form_fields
from tests.providers.transcripts import READERS, reader_of

LEVELS: Final = st.one_of(
    st.integers(MAX_LEVELS - 6, MAX_LEVELS + 6), st.sampled_from([1, 60, 250, 480, 700, 960, 3_000, 40_000])
)
KINDS: Final = st.sampled_from(["[", "{", "[{"])

Reader: TypeAlias = Callable[[str], object]


def nested(kind: str, levels: int) -> Any:
    """Make a value of lists, objects, or both in turn."""
    value: Any = "leaf"
    for level in range(levels):
        value = {"a": value} if kind[level % len(kind)] == "{" else [value]
    return value


def written(kind: str, levels: int) -> str:
    """Write it; Python's own encoder goes less deep."""
    begin = [('{"a":', "}") if kind[level % len(kind)] == "{" else ("[", "]") for level in range(levels)]
    return "".join(one for one, _ in begin) + '"leaf"' + "".join(end for _, end in reversed(begin))


# --- texts


def _bytes(read: Callable[[bytes], object]) -> Reader:
    return lambda text: read(text.encode())


def _in(before: str, read: Reader, after: str = "}") -> Reader:
    return lambda text: read(f"{before}{text}{after}")


def _decoded(body: str, decode: Callable[[OwedRow], object]) -> object:
    row = OwedRow(kind="k", id="i", body=body.encode())
    return [*decoded_rows([row], decode, LOGGER.warning, "a row")]


def _writer(text: str) -> object:
    with TemporaryDirectory() as folder:
        store = Path(folder) / "s.db"
        lock_path(store).write_text(text)
        return writer_of(store)


_LINE: Final = '{"version":1,"scope":"s","session":"s","seq":1,"epoch":1,"at_ms":1,"kind":"signal","does":[],"events":0,"hash":"00","body":'
_HEAD: Final = '{"agentrail_export":1,"content":true,"scope":"s","session":"s","records":1,"hash":"00"}\n'
_TAKES: Final = '{"kind":"plugin_event","seq":1,"session_id":"s","at_ms":1,"plugin":"p","name":"n","payload":'
TEXTS: Final[Mapping[str, Reader]] = {
    "decode_event": decode_event,
    "decode_event, unknown": _in('{"kind":"news","a":', decode_event),
    "decode_event, payload": _in(_TAKES, decode_event),
    "decode_signal": decode_signal,
    "decode_signal, a field": _in('{"kind":"prompt","a":', decode_signal),
    "decode_hook_event": decode_hook_event,
    "decode_line": _in(_LINE, _bytes(decode_line)),
    "read_export": lambda text: read_export(f"{_HEAD}{_LINE}{text}}}\n".encode()),
    "a record": bodies.decode_opened,
    "blobs of a record": _in('{"$blob":1,"a":', _bytes(bodies.blobs_of)),
    "join_blobs": _in('{"$blob":1,"a":', lambda text: bodies.join_blobs(text.encode(), lambda _: None)),
    "decode_config": state_codec.decode_config,
    "decode_codeless": state_codec.decode_codeless,
    "decode_toolbox": state_codec.decode_toolbox,
    "decode_session": state_codec.decode_session,
    "a snapshot": _bytes(form_fields.decode_snapshot),
    "a status": _bytes(form_fields.decode_status),
    "messages": _bytes(form_fields.decode_messages),
    "a receipt": _in('{"a":', _bytes(partial(form_fields.decode_receipt, PromptReceipt))),
    "a past state": _bytes(form_fields.decode_past_state),
    "rules": _bytes(form_fields.read_rules),
    "a journal page": _in(
        '[{"number":1,"at_ms":1,"kind":"k","does":[],"events":0,"epoch":1,"hash":"","body":{"a":',
        _bytes(command_results.read_journal_page),
        "}}]",
    ),
    "turns": _bytes(command_results.read_turns),
    "a frame of a server": frame_codec.decode_server_frame,
    "a result of a server": _bytes(frame_codec.object_in),
    "a body": _bytes(lambda text: read_object(text, Limits())),
    "a frame": _bytes(lambda text: decode_frame(text, Limits(), frozenset({"prompt"}))),
    "metadata": lambda text: check_metadata({"a": _value(text)}, Limits()),
    "a request of a sandbox": lambda text: decode_as(OpenRequest, text.encode()),
    "a webhook": lambda text: _decoded(text, decode_awaited),
    "a webhook message": lambda text: _decoded(text, decode_owed_message),
    "tokens": lambda text: decode_tokens(f"a = {text}".encode(), "tokens.toml"),
    "a configuration": lambda text: read_toml("agentrail.toml", f"a = {text}"),
    "permissions": lambda text: read_permissions("permissions.toml", f"allow = {text}"),
    "settings of another program": lambda text: read_claude_settings("settings.json", text),
    "an agent": lambda text: read_agent("a.md", "a", f"---\na: {text}\n---\nx"),
    "a skill": lambda text: read_skill("SKILL.md", "a", f"---\nname: {text}\n---\nx"),
    "trust": lambda text: decode_trust(text, name="trust.json"),
    "--args": lambda text: call_of_arguments("t", text),
    "a document that was read": _in('{"a":', _bytes(_read_answer)),
    "pictures of a program": lambda text: pictures_of(f"MARK{text}", "MARK"),
    "processes that were left": lambda text: list(_noted_in(Path("left"), f"{text}\n".encode())),
    "a lock file": _writer,
}
TYPED: Final = (AgentrailError, CallRefused, UnreadableWire, UnreadableDocument)


def _value(text: str) -> Any:
    with suppress(RecursionError):
        return json.loads(text)
    return nested("[", 3_000)


@pytest.mark.parametrize("door", TEXTS)
@given(kind=KINDS, levels=LEVELS)
@example(kind="{", levels=960)
@example(kind="[", levels=40_000)
def test_a_nested_text_is_read_or_refused(door, kind, levels):
    """Each reader of text from outside takes it, or raises its typed error."""
    with suppress(*TYPED):
        TEXTS[door](written(kind, levels))


@pytest.mark.parametrize("wire", READERS)
@given(kind=KINDS, levels=LEVELS)
@example(kind="[", levels=960)
def test_a_nested_event_of_a_provider_is_read_or_refused(wire, kind, levels):
    """Also where it stands in what is kept whole for the next request."""
    deep = written(kind, levels)
    for text in (deep, f'{{"type":"x","a":{deep}}}', _KEPT[wire].replace("DEEP", deep)):
        with suppress(AgentrailError):
            reader_of(wire).feed(text)


_KEPT: Final = {
    "gemini": '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":DEEP}}},{"other":DEEP}]},"finishReason":"STOP"}]}',
    "openai_chat": '{"choices":[{"delta":{"reasoning_details":[DEEP],"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":DEEP}}]}}]}',
    "openai_responses": '{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r","summary":[],"a":DEEP}}',
    "anthropic": '{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"c","name":"f","input":{"a":DEEP}}}',
}


# --- values in sessions


class Own:
    """A tool of somebody's, which does with a value what it is told."""

    name, description = "own", "Somebody's."
    parameters: Mapping[str, Any] = {"type": "object"}
    killable, effect_class, timeout_seconds = True, "pure", None

    def __init__(self, answer: Callable[[Any], Ok | Error]) -> None:
        self.answer = answer

    async def execute(self, arguments: Any, ctx: Any) -> Ok | Error:
        """Answer."""
        return self.answer(ctx)


def _plain(value: Any) -> Any:
    @tool
    async def own() -> Any:
        """Give it."""
        return value

    return own


def _emitting(value: Any) -> Own:
    def answer(ctx: Any) -> Ok:
        ctx.emit("own", value)
        return Ok(text="ok")

    return Own(answer)


def _detaching(value: Any) -> Own:
    def answer(ctx: Any) -> Ok:
        ctx.detach("later", value)
        return Ok(text="ok", details=value)

    return Own(answer)


TOOLS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "details of Ok": lambda value: Own(lambda _: Ok(text="ok", details=value)),
    "details of Error": lambda value: Own(lambda _: Error(text="no", details=value)),
    "a function's value": _plain,
    "a function's details": lambda value: _plain(Ok(text="ok", details=value)),
    "emit": _emitting,
    "detach": _detaching,
}


async def _look(supervisor: SessionSupervisor, session: Session) -> None:
    """Read all that a session has written: what was taken has to be readable."""
    assert (await session.status()).restarts == 0
    await session.messages()
    await session.snapshot()
    await session.journal()
    await supervisor.stored_state(session.session_id)
    await supervisor.stored_journal(session.session_id)
    await supervisor.events_page(session.session_id)
    await supervisor.export_session(session.session_id)
    for name in ("explain_record", "plain_state_at"):
        await getattr(supervisor, name)(session.session_id, number=2)


@pytest.mark.parametrize("door", TOOLS)
@given(kind=KINDS, levels=LEVELS)
@example(kind="[", levels=MAX_LEVELS)
@example(kind="[", levels=MAX_LEVELS + 1)
async def test_a_nested_result_is_kept_or_told(door, kind, levels):
    """A tool's value is in the history, or its fault is told to the model; the session goes on."""
    async with open_supervisor(store="memory:", environ={}) as supervisor:
        model = ScriptedModel([calls(("own", {})), *(says("fine") for _ in range(4))])
        session = await supervisor.start_session(model=model, tools=[TOOLS[door](nested(kind, levels))])
        assert await session.ask("go") == "fine"
        await _look(supervisor, session)
        fault = next(iter((await session.messages())[2].results)).text if levels > MAX_LEVELS else ""
        assert "crashed" not in fault or "nested" in fault or "more than 50,000" in fault or "bytes" in fault


@given(kind=KINDS, levels=LEVELS)
@example(kind="[", levels=MAX_LEVELS - 1)
async def test_nested_arguments_are_passed_or_told(kind, levels):
    """The model hears of its own fault."""
    arguments = f'{{"a":{written(kind, levels)}}}'
    async with open_supervisor(store="memory:", environ={}) as supervisor:
        model = ScriptedModel([calls(("own", arguments)), *(says("fine") for _ in range(4))])
        session = await supervisor.start_session(model=model, tools=[Own(lambda _: Ok(text="ok"))])
        assert await session.ask("go") == "fine"
        await _look(supervisor, session)


async def _approved(session: Session, value: Any) -> int:
    seen = 0
    async with session.stream("go") as events:
        async for event in events:
            if isinstance(event, ApprovalRequired):
                seen += 1
                with suppress(AgentrailError):
                    await session.approve(event.approval.id, arguments={"a": value})
                    continue
                await session.reject(event.approval.id, auto_resume=True)
    return seen


async def _answered(session: Session, value: Any) -> int:
    seen = 0
    async with session.stream("go") as events:
        async for event in events:
            if isinstance(event, AskUser):
                seen += 1
                with suppress(AgentrailError):
                    await session.respond(event.ref, {"a": value})
                    continue
                await session.decline(event.ref)
            if isinstance(event, ClientCall):
                seen += 1
                with suppress(AgentrailError):
                    await session.answer(event.ref, Ok(text="ok", details=value))
                    continue
                await session.answer(event.ref, Ok(text="ok"))
    return seen


FORM: Final[Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


@tool
async def ask(ctx: ToolContext) -> str:
    """Ask the user."""
    return str(await ctx.ask_user("What?", schema=FORM))[:10]


ANSWERS: Final[Mapping[str, tuple[Callable[[Session, Any], Awaitable[int]], Any, str]]] = {
    "approve": (_approved, Own(lambda _: Ok(text="ok")), "own"),
    "respond": (_answered, ask, "ask"),
    "answer": (
        _answered,
        ClientTool(name="own", description="The client's.", parameters={"type": "object"}),
        "own",
    ),
}


@pytest.mark.parametrize("door", ANSWERS)
@given(kind=KINDS, levels=LEVELS)
@example(kind="[", levels=MAX_LEVELS)
async def test_a_nested_answer_of_a_person_or_a_client_is_taken_or_refused(door, kind, levels):
    """Whoever answers hears of it; the call waits on."""
    work, used, name = ANSWERS[door]
    plugins = [(HumanApproval, {"require_approval_for": ["own"]})] if door == "approve" else []
    async with open_supervisor(store="memory:", environ={}) as supervisor:
        model = ScriptedModel([calls((name, {})), *(says("fine") for _ in range(4))])
        session = await supervisor.start_session(model=model, tools=[used], plugins=plugins)
        with fail_after(20):
            assert await work(session, nested(kind, levels)) == 1
        await _look(supervisor, session)


@pytest.mark.parametrize(
    "option", ["user_data", "provider_opts", "response_format", "plugins", "permissions"]
)
@given(kind=KINDS, levels=LEVELS)
@example(kind="[", levels=MAX_LEVELS - 1)
async def test_a_nested_option_is_taken_or_refused(option, kind, levels):
    """What is taken is in the first record, which has to be readable."""
    value = nested(kind, levels)
    given_value: Any = (
        [(HumanApproval, {"require_approval_for": value})] if option == "plugins" else {"a": value}
    )
    async with open_supervisor(store="memory:", environ={}) as supervisor:
        with suppress(AgentrailError):
            session = await supervisor.start_session(
                model=ScriptedModel([says("x")] * 3), **{option: given_value}
            )
            await _look(supervisor, session)
        session = await supervisor.start_session(model=ScriptedModel([says("x")] * 3))
        for change in (
            lambda: session.attach_plugin((HumanApproval, {"require_approval_for": value})),
            lambda: session.update_plugin_opts("human_approval", a=value),
            lambda: session.switch_model("demo:", provider_opts={"a": value}),
        ):
            with suppress(AgentrailError):
                await change()
        await _look(supervisor, session)
