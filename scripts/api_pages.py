"""The pages of `Session` and of `SessionSupervisor`, method by method, from their docstrings. What no reader calls is not on them."""

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from agentrail import app
from agentrail.runtime.cycle_reply import CycleReply
from agentrail.runtime.cycle_stream import CycleStream
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.fan_in import ManySubscription
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_monitor import SessionMonitor
from agentrail.runtime.supervisor import SessionSupervisor

DRAWN: Final = "<!-- Drawn from the docstrings by `make docs`; edit those. -->"

SESSION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Ask": "ask run stream wait_for prompt go_on collect_reply receipt_of",
        "Read": "subscribe snapshot status messages",
        "Steer and stop": "steer abort abort_tool stop",
        "Decide and answer": "approve reject respond decline answer rules revoke_rule break_on unbreak",
        "Change": "switch_model attach_tools detach_tools replace_tools report_tool_source "
        "attach_plugin detach_plugin reload_plugin update_plugin_opts compact",
        "Look back": "journal state_at turns fork rewind",
        "Know": "session_id scope facts reads_answers monitor agents",
    }
)
"""The members of a session, by what one wants of it."""

SUPERVISOR: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Start": "start_session wait_for_tools call_tool",
        "Keep and resume": "resume_session resume_all find newest",
        "Find": "session sessions",
        "Read": "subscribe_all subscribe_group",
        "End": "stop_session rest move_session",
        "Keep": "export_session import_session trim_session delete_session forget_user",
        "Know": "monitor facts_of stored_journal stored_state find_records plain_state_at explain_record events_page check_store last_words reports tree parked_sessions plugin_use fault_of_model budget_use spendings statistics",
        "Build a server on it": "ask_host is_closing stop_all start_behind memories_of keeps_owed owed change_owed adopt_owed call_nodes check_revive cluster_facts describe_profiles drain end_forgotten follow_orphans limit_sessions look_at_nodes shared_node take_allowance take_moved",
    }
)

OF_THE_SHELL: Final = frozenset(
    {
        "start_behind",
        "ask_host",
        "is_closing",
        "stop_all",
        "keeps_owed",
        "owed",
        "memories_of",
        "change_owed",
        "adopt_owed",
        "call_nodes",
        "check_revive",
        "cluster_facts",
        "describe_profiles",
        "drain",
        "follow_orphans",
        "limit_sessions",
        "look_at_nodes",
        "shared_node",
        "take_allowance",
        "end_forgotten",
        "take_moved",
        "nodes",
    }
)
"""Calls for servers that are built on a supervisor; the one of `agentrail.blocking` has none of them."""

GIVEN: Final[Mapping[type, str]] = MappingProxyType(
    {
        CycleStream: "__aenter__ __anext__ text reply ref",
        CycleReply: "cost_usd",
        Subscription: "__aenter__ __anext__ next_nowait snapshot",
        SessionMonitor: "wait",
    }
)
"""What calls give that has members of its own."""

OF_A_SUBSCRIPTION: Final = frozenset({"begin", "begin_anew", "offer", "offer_delta", "bus_closed", "end"})
"""What the session that it reads calls on it."""

MAX_SIGNATURE_WIDTH: Final = 110
MIN_USUAL: Final = 3
"""Calls that describe an argument or an error in the same words, from which on the page describes it once."""

_SECTION: Final = re.compile(
    r"^(Args|Attributes|Returns|Yields|Raises|Cancellation):[ ]?(.*?)(?=^(?:Args|Attributes|Returns|Yields|Raises|Cancellation):|\Z)",
    re.MULTILINE | re.DOTALL,
)
_NAMES: Final = r"\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*"
_ENTRY: Final = re.compile(rf"^({_NAMES}): (.*?)(?=^{_NAMES}: |\Z)", re.MULTILINE | re.DOTALL)


def session_api_page() -> str:
    """All that a handle to a session has, and what its calls give."""
    usual = _usual(_member(Session, name) for names in SESSION.values() for name in names.split())
    lines = [
        "# `Session`, call by call",
        "",
        DRAWN,
        "",
        *_class_lines(Session),
        "`supervisor.start_session(…)` and `agentrail.open_session(…)` return a session. Each call sends one message and waits for the reply. See",
        "[your first session](../tutorial/first-session.md), [follow sessions](../how-to/follow-sessions.md), [control a running session](../how-to/steer-and-decide.md), the",
        "[options](session.md) and the [errors](errors.md).",
        "",
        *_contents(SESSION),
        *_usual_lines(usual),
    ]
    for title, names in SESSION.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += _member_lines(Session, name, name, usual)
    lines += ["## Returned objects", ""]
    for kind, names in GIVEN.items():
        lines += [f"### `{kind.__name__}`", "", *_class_lines(kind)]
        for name in names.split():
            lines += _member_lines(kind, name, f"{kind.__name__}.{name}", usual, depth=4)
    return "\n".join(lines)


def supervisor_api_page() -> str:
    """How a supervisor is opened, and all that it has."""
    members = (_member(SessionSupervisor, name) for names in SUPERVISOR.values() for name in names.split())
    usual = _usual((app.open_supervisor, app.open_session, *members))
    lines = [
        "# `SessionSupervisor`, call by call",
        "",
        DRAWN,
        "",
        *_class_lines(SessionSupervisor),
        "See [your first session](../tutorial/first-session.md), [run many sessions](../how-to/run-many-sessions.md) and the methods of [sessions](session-api.md).",
        "Programs without Trio use [`agentrail.blocking`](../how-to/from-asyncio.md).",
        "",
        *_contents({"Open": "open_supervisor open_session", **SUPERVISOR}),
        *_usual_lines(usual),
        "## Open",
        "",
        *_function_lines(app.open_supervisor, usual),
        *_function_lines(app.open_session, usual),
    ]
    for title, names in SUPERVISOR.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += _member_lines(SessionSupervisor, name, name, usual)
    lines += ["## Returned objects", "", "### `ManySubscription`", "", *_class_lines(ManySubscription)]
    lines += [
        "Use it like a [`Subscription`](session-api.md#subscription).",
        "",
    ]
    return "\n".join(lines)


def public_names(kind: type) -> set[str]:
    """The members that a class and those above it have for callers."""
    return {
        name
        for one in kind.__mro__
        for name, member in vars(one).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def _contents(sections: Mapping[str, str]) -> Iterator[str]:
    for title, names in sections.items():
        links = ", ".join(f"[`{name}`](#{name})" for name in names.split())
        yield f"- {title}: {links}"
    yield ""


def _class_lines(kind: type) -> Iterator[str]:
    yield from _doc_lines(_docstring(kind))


def _function_lines(function: Any, usual: Mapping[str, str]) -> Iterator[str]:
    source = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef)  # noqa: S101 - what `def` makes
    is_block = any("contextmanager" in ast.unparse(one) for one in source.decorator_list)
    yield from (f"### `{function.__name__}`", "", "```text")
    yield from (_signature(source, "async with" if is_block else ""), "```", "")
    yield from _doc_lines(_docstring(function), usual)


def _member_lines(
    kind: type, name: str, heading: str, usual: Mapping[str, str], *, depth: int = 3
) -> Iterator[str]:
    owner = next(one for one in kind.__mro__ if name in vars(one))
    member = _member(kind, name)
    owner = _owner_of_source(member) or owner
    signatures = _signatures_in(owner, name)
    shown = f"`{_SPOKEN[name]}` a `{kind.__name__}`" if name in _SPOKEN else f"`{heading}`"
    yield from (f"{'#' * depth} {shown}", "")
    if isinstance(member, property):
        (source,) = signatures
        yield from (
            "```text",
            f"{name}: {ast.unparse(source.returns) if source.returns else 'Any'}",
            "```",
            "",
        )
    elif name not in _SPOKEN:
        yield from ("```text", *(_signature(source) for source in signatures), "```", "")
    yield from _doc_lines(_docstring(member), usual)


def _member(kind: type, name: str) -> Any:
    return next(vars(one)[name] for one in kind.__mro__ if name in vars(one))


_SPOKEN: Final = MappingProxyType({"__aenter__": "async with", "__anext__": "async for"})
"""No caller writes these names."""


def _owner_of_source(member: Any) -> type | None:
    """Find the class whose source has the `def` of a method that `of_part` made; None for any other member."""
    made = inspect.unwrap(member)
    return None if made is member else getattr(inspect.getmodule(made), made.__qualname__.partition(".")[0])


@cache
def _body_of(kind: type) -> tuple[ast.stmt, ...]:
    made = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(made, ast.ClassDef)  # noqa: S101 - what `class` makes
    return tuple(made.body)


def _signatures_in(kind: type, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """As they are written, where types have the names that a reader knows; those of `overload` where there are some."""
    found = [
        one
        for one in _body_of(kind)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name
    ]
    told = [one for one in found if any(ast.unparse(mark) == "overload" for mark in one.decorator_list)]
    return told or found


def _signature(source: ast.FunctionDef | ast.AsyncFunctionDef, before: str | None = None) -> str:
    each = [_spaced(one) for one in _split(ast.unparse(source.args))]
    if each[0] in {"self", "cls"}:
        each = each[2:] if each[1:2] == ["/"] else each[1:]
    told = "" if source.returns is None else ast.unparse(source.returns)
    how = before or _how_to_call(source, told)
    returns = f" -> {told}" if told and before is None else ""
    line = f"{how} {source.name}({', '.join(each)}){returns}".lstrip()
    if len(line) <= MAX_SIGNATURE_WIDTH:
        return line
    return "\n".join([f"{how} {source.name}(".lstrip(), *(f"    {one}," for one in each), f"){returns}"])


def _how_to_call(source: ast.FunctionDef | ast.AsyncFunctionDef, returns: str) -> str:
    if not isinstance(source, ast.AsyncFunctionDef):
        return ""
    return "async for … in" if returns.startswith("AsyncIterator") else "await"


def _spaced(argument: str) -> str:
    """Write a default as it is written beside an annotation, which `ast.unparse` does not."""
    return re.sub(r"(?<=\S)=(?=\S)", " = ", argument, count=1) if ": " in argument else argument


def _split(arguments: str) -> Iterator[str]:
    """Cut a list of arguments at the commas that are in no brackets."""
    depth, begun = 0, 0
    for place, character in enumerate(arguments):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            yield arguments[begun:place].strip()
            begun = place + 1
    yield arguments[begun:].strip()


def _docstring(thing: object) -> str:
    """Return the docstring of a public thing. Raises ValueError if it has none."""
    text = inspect.getdoc(thing)
    if not text:
        message = f"{thing!r} is on a reference page and has no docstring; write one"
        raise ValueError(message)
    return text


def _doc_lines(text: str, known: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Return a docstring as Markdown: its paragraphs, and a list for each section.

    Entries that only refer to another call share a line, and so do those of `known`, which the page explains at its top.
    """
    first = _SECTION.search(text)
    yield from (*text[: first.start() if first else None].strip().splitlines(), "")
    for found in _SECTION.finditer(text):
        title, said = found[1], textwrap.dedent(found[2]).strip()
        entries = [] if title in _IN_WORDS else _ENTRY.findall(f"{said}\n")
        if not entries:
            yield from (f"**{title}**: {' '.join(said.split())}", "")
            continue
        lines, usual = [], []
        for names, meaning in _joined(entries):
            shown = ", ".join(f"`{name}`" for name in names.split(", "))
            if known.get(names) == meaning:
                usual.append(shown)
            else:
                lines.append(f"- {shown}: {meaning}")
        if usual and not lines:
            yield from (f"**{title}**: {', '.join(usual)}", "")
            continue
        yield from (f"**{title}**", "", *lines)
        if usual:
            yield f"- {', '.join(usual)}"
        yield ""


def _joined(entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drop the mark of a caller's fault, and join the entries of a section with the same meaning, such as "See `ask`"."""
    names_of: dict[str, list[str]] = {}
    for names, meaning in entries:
        said = " ".join(meaning.split()).removeprefix("Your move: ")
        names_of.setdefault(f"{said[:1].upper()}{said[1:]}", []).append(names)
    return [(", ".join(names), meaning) for meaning, names in names_of.items()]


def _usual(members: Iterable[object]) -> dict[str, str]:
    """Return the arguments and errors that `MIN_USUAL` or more members describe in the same words."""
    counts = Counter(
        entry
        for member in members
        for found in _SECTION.finditer(_docstring(member))
        if found[1] not in _IN_WORDS
        for entry in _joined(_ENTRY.findall(f"{textwrap.dedent(found[2]).strip()}\n"))
    )
    usual: dict[str, str] = {}
    for (names, meaning), count in counts.most_common():
        if count >= MIN_USUAL and not meaning.startswith("See "):
            usual.setdefault(names, meaning)
    return usual


def _usual_lines(usual: Mapping[str, str]) -> Iterator[str]:
    yield from ("## Usual arguments and errors", "", "Calls name these without a description:", "")
    for names, meaning in usual.items():
        yield f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {meaning}"
    yield ""


_IN_WORDS: Final = frozenset({"Returns", "Yields", "Cancellation"})
