"""Decisions of the user in `agentrail chat`: steers, approvals, answers. Parses the commands, and the session applies them."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from agentrail.cli.always_text import words_of_always
from agentrail.cli.chat_notices import show_form, show_offered
from agentrail.core.session.views import Status
from agentrail.errors import AgentrailError, InteractionError, UnknownApproval
from agentrail.events import PERMISSION_OPTIONS, Approval, Question
from agentrail.runtime.rule_queries import read_always_rules
from agentrail.runtime.session_handle import Session

DECISION_COMMANDS: Final = frozenset({"/steer", "/approve", "/edit", "/reject", "/answer", "/decline"})
"""Commands for decisions, which `/help` describes. If several requests are pending, `#2` selects the second: `/approve #2`."""

WaitsForPerson: TypeAlias = Approval | Question

KeepRules: TypeAlias = Callable[[tuple[str, ...]], str]
"""Saves rules to the user's file and returns its location, or an empty text if they are not saved."""

NO_RULES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

_PERMISSIONS: Final = "Permissions"


def waiting_of(status: Status) -> tuple[WaitsForPerson, ...]:
    """Return the requests that wait for the user, here and in sub-sessions, the oldest first."""
    both: tuple[WaitsForPerson, ...] = (*status.all_approvals, *status.all_questions)
    return tuple(sorted(both, key=lambda one: one.requested_at_ms))


def show_waiting(status: Status, rules: Mapping[str, tuple[str, ...]] = NO_RULES) -> list[str]:
    """Return a line for each pending request, with the rules that "always" would save, by the id of its approval."""
    return [f"#{place} {_show(one, rules)}" for place, one in enumerate(waiting_of(status), start=1)]


async def rules_of_waiting(
    session: Session, status: Status, keep: KeepRules | None
) -> dict[str, tuple[str, ...]]:
    """Return the rules that "always" would save for each pending approval. Empty if rules are not saved."""
    found: dict[str, tuple[str, ...]] = {}
    for one in () if keep is None else status.all_approvals:
        with suppress(UnknownApproval):  # decided meanwhile
            found[one.id] = await read_always_rules(session, one.id)
    return found


async def answer_waiting(session: Session, words: str) -> str | None:
    """Use text as an answer if exactly one question is pending and nothing else, so that it needs no command. Otherwise None."""
    match waiting_of(await session.status()):
        case (Question() as asked,):
            await session.respond(asked.ref, _answer_to(asked, words))
            return "answered"
        case _:
            return None


async def decide(
    session: Session, command: str, rest: str, keep: KeepRules | None = None, chosen: Approval | None = None
) -> str:
    """Apply a decision command. Without a chosen approval, its words begin with the number of the pending request."""
    if command == "/steer":
        receipt = await session.steer(rest)
        return (
            "it starts a cycle of its own" if receipt.status == "became_prompt" else "the model hears it next"
        )
    place, text = split_place(rest) if chosen is None else (1, rest)
    found: WaitsForPerson = chosen or pick(
        waiting_of(await session.status()), place, questions=command in {"/answer", "/decline"}
    )
    if command == "/decline":
        await session.decline(found.ref if isinstance(found, Question) else found.id, text or None)
        return "declined"
    if isinstance(found, Question):
        await session.respond(found.ref, _answer_to(found, text))
        return "answered"
    match command:
        case "/approve":
            if text == "always":
                return await _approve_always(session, found, keep)
            await session.approve(found.id)
            return f"{found.tool} runs"
        case "/edit":
            await session.approve(found.id, arguments=_read_object(text, "arguments"))
            return f"{found.tool} runs, with your arguments"
        case "/reject":
            await session.reject(found.id, text or None, auto_resume=True)
            return f"{found.tool} is refused"
        case _:
            await session.respond(found.id, text)
            return f"{found.tool} is answered in place of running"


async def _approve_always(session: Session, found: Approval, keep: KeepRules | None) -> str:
    """Approve a call and whatever its narrowest rules cover: from now on in this session, and in the user's saved rules."""
    rules = () if keep is None else await read_always_rules(session, found.id)
    is_rule_of_file = bool(rules) and "always" not in found.permission_options
    await session.approve(found.id, kind="once" if is_rule_of_file else "always")
    if keep is None or not rules:
        return f"{found.tool} runs"
    try:
        where = keep(rules)
    except AgentrailError as error:
        return f"{found.tool} runs; this is not kept: {error}"
    for plugin in (await session.status()).plugins:
        if plugin.name == _PERMISSIONS:
            allowed: Any = plugin.options.get("allow", ())
            await session.update_plugin_opts(plugin.name, allow=[*dict.fromkeys((*allowed, *rules))])
    kept = f", kept in {where}" if where else ""
    return f"{found.tool} runs; from now on by {', '.join(rules)}{kept}"


def _read_object(text: str, what: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"these {what} are not JSON: {error}"
        raise InteractionError(message) from None
    if not isinstance(read, dict):
        message = f'{what} are a JSON object, as in {{"path": "notes.md"}}; got {text}'
        raise InteractionError(message)
    return read


def _answer_to(question: Question, text: str) -> str | int | dict[str, Any]:
    if question.schema is not None:
        return _read_object(text, "answers to a form")
    if not (question.options and text.isdecimal()):
        return text
    number = int(text)
    if not 1 <= number <= len(question.options):  # checked here, because users count from 1
        message = f"there is no option {number}: expected 1 to {len(question.options)}, or text"
        raise InteractionError(message)
    return number - 1


def split_place(rest: str) -> tuple[int, str]:
    """Split the number of a pending request, from 1, from the rest. The default is the first request."""
    head, _, tail = rest.strip().partition(" ")
    if head.startswith("#") and head[1:].isdecimal():
        return int(head[1:]), tail.strip()
    return 1, rest.strip()


def pick(waiting: tuple[WaitsForPerson, ...], place: int, *, questions: bool) -> WaitsForPerson:
    if not 1 <= place <= len(waiting):
        message = f"nothing waits at #{place}" if waiting else "nothing waits for you"
        raise InteractionError(message)
    found = waiting[place - 1]
    if isinstance(found, Question) and not questions:
        message = "that is a question: answer it with /answer"
        raise InteractionError(message)
    return found


def _show(one: WaitsForPerson, rules: Mapping[str, tuple[str, ...]]) -> str:
    if isinstance(one, Question):
        options = "".join(f" {number}) {option}" for number, option in enumerate(one.options, start=1))
        return f"{one.question}{options}{show_form(one.schema, one.url)}"
    shown = f"{one.tool} {one.arguments}" + (f": {one.hint}" if one.hint else "")
    saved = rules.get(one.id, ())
    if saved or "always" in one.permission_options:
        shown += f" ({words_of_always(one, saved)})"
    return shown if one.permission_options == PERMISSION_OPTIONS else f"{shown} ({show_offered(one)})"
