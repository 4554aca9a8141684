"""Routes for the past of a session: journal, past states, explanations. Each needs the scope `inspect`."""

from typing import Final

from agentrail.core.journal.step_explanation import ExplainedStep
from agentrail.errors.name_guesses import near_name
from agentrail.gateway.calls import inspection
from agentrail.gateway.inspection_replies import StateReply, TracePage
from agentrail.gateway.path_endpoint import CallRoute, RouteCall, aim_nowhere
from agentrail.gateway.request_parser import (
    MAX_SEARCH_CHARACTERS,
    refuse_field,
    whole_number,
    yes_or_no,
)
from agentrail.gateway.session_routes import in_path, number_in_query, runs
from agentrail.runtime.journal_inspection import RECORD_KINDS, WantedRecords

MAX_RECORDS_OF_A_PAGE: Final = 1_000


def read_kinds(text: str | None) -> frozenset[str]:
    """Parse record kinds, separated by commas. An empty set means all."""
    kinds = frozenset(filter(None, (text or "").split(",")))
    unknown = sorted(kinds - RECORD_KINDS)
    if unknown:
        otherwise = ": the journal shows the existing ones"
        hint = near_name(unknown[0], sorted(RECORD_KINDS), ": did you mean {!r}?", otherwise, cutoff=0.5)
        refuse_field("kinds", f"has {unknown[0][:80]!r}, which is not a kind of record{hint}")
    return kinds


def _text(name: str, text: str | None) -> str | None:
    if not text:
        return None
    if len(text) > MAX_SEARCH_CHARACTERS:
        refuse_field(name, f"has {len(text)} characters: at most {MAX_SEARCH_CHARACTERS} are allowed")
    return text


def _wanted(call: RouteCall) -> WantedRecords:
    query = call.query
    return WantedRecords(
        after=whole_number("after", query.get("after"), 0),
        before=number_in_query("before", least=1)(call),
        limit=whole_number("limit", query.get("limit"), 100, least=1, most=MAX_RECORDS_OF_A_PAGE),
        kinds=read_kinds(query.get("kinds")),
        plugin=_text("plugin", query.get("plugin")),
        text=_text("q", query.get("q")),
        with_bodies=yes_or_no("bodies", query.get("bodies", "true")),
    )


def _at(call: RouteCall) -> int:
    if "at" not in call.query:
        refuse_field("at", "is missing: give the number of a record, from 1")
    return whole_number("at", call.query["at"], 1, least=1)


_session: Final = in_path("session_id")
_trace: Final = runs(inspection.inspect_trace, _session, _wanted)
_state: Final = runs(inspection.inspect_state, _session, _at, since=number_in_query("from", least=1))
_explain: Final = runs(inspection.inspect_explanation, _session, _at)

_ONE: Final = "/inspect/sessions/{session_id}"

# fmt: off
PAST_ROUTES: Final = (
    CallRoute("GET", f"{_ONE}/trace", _trace, does="shows a journal", query=("after", "before", "limit", "kinds", "plugin", "q", "bodies"), scope="inspect", aim=aim_nowhere, replies={200: TracePage}, refusals="option_error"),
    CallRoute("GET", f"{_ONE}/state", _state, does="shows the state of a session after a record", query=("at", "from"), scope="inspect", aim=aim_nowhere, replies={200: StateReply}, refusals="option_error"),
    CallRoute("GET", f"{_ONE}/explain", _explain, does="explains the effects of a record", query=("at",), scope="inspect", aim=aim_nowhere, replies={200: ExplainedStep}, refusals="option_error"),
)
# fmt: on
