"""What stands in paths, queries and headers: ids, cursors, numbers and flags, read strictly.

Pure: texts in, values out. A text is a number only where every reader would take it for one; no message repeats an id or a token.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from agentrail.gateway.answers import refuse_call
from agentrail.gateway.bodies import ChatBody
from agentrail.host.identity import fault_of_name, fault_of_session_id
from agentrail.host.listed_session import SESSION_PHASES
from agentrail.wire.rows import MAX_ROWS, OUTCOMES_OF_ROWS, RowFilter

MAX_CURSOR: Final = (1 << 53) - 1
"""The largest whole number that every client can hold."""

MAX_SEARCH_CHARACTERS: Final = 200
"""Characters that rows are searched for."""


def refuse_field(name: str, what: str) -> NoReturn:
    """Refuse a field, or a part of a query.

    Raises:
        CallRefused: 422 `field_invalid`, in any case.
    """
    refuse_call("field_invalid", f"{name} {what}"[:300], more={"field": name})


def check_known(given: Mapping[str, Any], known: tuple[str, ...], before: str = "") -> None:
    """Let names pass that are known.

    Args:
        given: What came, by name.
        known: All that there are.
        before: What stands in front of a name in messages: where it is.

    Raises:
        CallRefused: 422 `field_unknown`, with the nearest known name.
    """
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    near = difflib.get_close_matches(unknown[:128], known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    refuse_call(
        "field_unknown",
        f"{before}{unknown[:80]} is not known here",
        hint=hint,
        more={"field": before + unknown[:80]},
    )


def check_id(name: str, value: str, *, of_session: bool = False) -> str:
    """Let an id pass: out of a body, a path, a query or a header.

    Args:
        name: Of the field.
        value: What came.
        of_session: Whether it is the id of a session, which has no `@` and no `+`.

    Raises:
        CallRefused: 422 `id_invalid`, which does not repeat it.
    """
    fault = fault_of_session_id(name, value) if of_session else fault_of_name(name, value)
    if fault is not None:
        refuse_call("id_invalid", fault, more={"field": name})
    return value


def check_same_session(body: ChatBody, session_id: str) -> None:
    """Let a body pass that names no session, or the one in the path.

    Raises:
        CallRefused: 422: it names another one.
    """
    if body.session_id not in (None, session_id):
        refuse_field("session_id", "is not the session in the path: leave it out")


def named_by_client(body_id: str | None, header: str | None) -> str | None:
    """Give the caller's name of a message: `client_id` of the body, or the header `Idempotency-Key`.

    Raises:
        CallRefused: 422: the header is no id, or both are there and differ.
    """
    if header is not None:
        check_id("Idempotency-Key", header)
        if body_id not in (None, header):
            refuse_field("client_id", "is not what Idempotency-Key says: send one of both")
    return body_id if body_id is not None else header


def check_filter(wanted: RowFilter, before: str = "") -> None:
    """Let a filter pass that rows can be found by.

    Args:
        wanted: The filter.
        before: What stands in front of its names in messages: where they are.

    Raises:
        CallRefused: 422: a part of it cannot be.
    """
    if wanted.q is not None and len(wanted.q) > MAX_SEARCH_CHARACTERS:
        refuse_field(f"{before}q", f"has more than {MAX_SEARCH_CHARACTERS} characters")
    if wanted.agent_id is not None:
        check_id(f"{before}agent_id", wanted.agent_id)
    if wanted.phase is not None and wanted.phase not in SESSION_PHASES:
        refuse_field(
            f"{before}phase", f"is {wanted.phase!r:.40}: expected one of {', '.join(SESSION_PHASES)}"
        )
    if wanted.outcome is not None and wanted.outcome not in OUTCOMES_OF_ROWS:
        refuse_field(
            f"{before}outcome", f"is {wanted.outcome!r:.40}: expected one of {', '.join(OUTCOMES_OF_ROWS)}"
        )
    if not 1 <= wanted.limit <= MAX_ROWS:
        refuse_field(f"{before}limit", f"is {wanted.limit:.0f}: expected a whole number from 1 to {MAX_ROWS}")


_WHOLE: Final = re.compile(r"[0-9]{1,16}")


def cursor_of(last_event_id: str | None, after: str | None) -> int | None:
    """Give the number that a reader goes on after; None for one that begins.

    Args:
        last_event_id: The header `Last-Event-ID`. It goes first: a browser that comes back sends the query of its beginning again.
        after: Of the query.

    Raises:
        CallRefused: 400 `cursor_invalid`: either of them is no whole number from 0.
    """
    found = [_cursor(name, text) for name, text in (("Last-Event-ID", last_event_id), ("after", after))]
    return found[0] if found[0] is not None else found[1]


def _cursor(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > MAX_CURSOR:
        refuse_call("cursor_invalid", f"{name} is no cursor: expected a whole number from 0")
    return int(text)


def whole_number(name: str, text: str | None, default: int, *, least: int = 0, most: int = MAX_CURSOR) -> int:
    """Read a number of a query, such as `limit=50`.

    Raises:
        CallRefused: 422: it is none, or out of bounds.
    """
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        refuse_field(name, f"is {text!r:.40}: expected a whole number from {least} to {most}")
    return int(text)


def yes_or_no(name: str, text: str | None) -> bool:
    """Read a flag of a query, such as `wait=true`; left out means no.

    Raises:
        CallRefused: 422: it is neither `true` nor `false`.
    """
    if text not in (None, "true", "false"):
        refuse_field(name, f"is {text!r:.40}: expected true or false")
    return text == "true"


def check_query(given: Iterable[str], known: tuple[str, ...]) -> None:
    """Let a query pass whose names a route knows, each once.

    Raises:
        CallRefused: 400 for a token, which is not repeated; 422 for any other unknown name.
    """
    names = list(given)
    if any(name.lower() in ("token", "access_token") for name in names):
        refuse_call("token_in_url", "a token in a URL is refused")
    twice = next(
        (name for name in known if names.count(name) > 1), None
    )  # and not each name: a stranger says how many
    if twice is not None:
        refuse_field(twice, "stands twice in the query")
    check_known(dict.fromkeys(names), known or ("none",), "?")
