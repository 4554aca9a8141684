"""Session facts that need no round trip, for long lists. A hibernated session is not woken, and a busy one is not awaited."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from agentrail.core.policy.request_context import fixed_tokens_of
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session.request_preview import ContextReply, next_request_of
from agentrail.core.session.views import Status, first_words_in, model_of, system_sections_of
from agentrail.core.values.import_history import Repair
from agentrail.core.values.toolbox import Toolbox
from agentrail.events import Event
from agentrail.messages import JsonObject, SessionId
from agentrail.runtime.rule_queries import step_of
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session

ASLEEP: Final = "asleep"
ENDED: Final = "ended"


def glance_at(session: Session) -> Status | None:
    cell = session._cell  # noqa: SLF001 - internal access to the cell of a handle
    return None if cell.is_asleep or cell.ending is not None else cell.status_at(now_ms())


def phase_of(session: Session) -> str:
    """Return the phase of a session: one of the four phases, `asleep` or `ended`. Cheaper than its whole status."""
    cell = session._cell  # noqa: SLF001 - same access
    if cell.ending is not None:
        return ENDED
    return ASLEEP if cell.is_asleep else cell.visible.phase.value


def began_at_ms(session: Session) -> int:
    """Return when a session first started. 0 if it is hibernated or has not started."""
    cell = session._cell  # noqa: SLF001 - same access
    return 0 if cell.is_asleep else cell.visible.data.started_at_ms


def window_of(session: Session) -> int | None:
    """Return the context window of a session's model in tokens. None if it is unknown, or the session is hibernated."""
    cell = session._cell  # noqa: SLF001 - same access
    if cell.is_asleep:
        return None
    facts = model_of(cell.visible.data)
    return None if facts.window_is_assumed else facts.context_window


def repairs_of(session: Session) -> tuple[Repair, ...]:
    """Return the repairs of a session's initial messages. Empty if it is hibernated."""
    cell = session._cell  # noqa: SLF001 - same access
    return () if cell.is_asleep else cell.visible.data.repairs


def hold_next_request(session: Session) -> Callable[[], ContextReply] | None:
    """Capture a session's state to compute its next model request. Call the result in a thread: it blocks."""
    cell = session._cell  # noqa: SLF001 - same access
    if cell.is_asleep or cell.ending is not None:
        return None
    return partial(next_request_of, cell.visible.data, cell.ports.withheld.replaced)


def model_facts_of(session: Session) -> ModelFacts | None:
    cell = session._cell  # noqa: SLF001 - same access
    return None if cell.is_asleep else model_of(cell.visible.data)


def changed_at_ms(session: Session) -> int:
    """Return when a session last published an event, in milliseconds since 1970 (0 for none)."""
    cell = session._cell  # noqa: SLF001 - same access
    return cell.bus.last_at_ms


def newest_events(session: Session) -> Iterator[Event]:
    cell = session._cell  # noqa: SLF001 - same access
    return cell.bus.newest_first()


def title_of(session: Session) -> str | None:
    cell = session._cell  # noqa: SLF001 - same access
    return None if cell.is_asleep else cell.visible.data.title


def first_words_of(session: Session) -> str | None:
    cell = session._cell  # noqa: SLF001 - same access
    return None if cell.is_asleep else first_words_in(cell.visible.data.history.messages)


def step_to(session: Session, session_id: str) -> tuple[str | None, str | None]:
    return step_of(session._cell, SessionId(session_id))  # noqa: SLF001 - same access


def names_for_commands(
    session: Session,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, int], ...]]:
    cell = session._cell  # noqa: SLF001 - same access
    if cell.is_asleep:
        return (), (), ()
    data = cell.visible.data
    sections = tuple((name, fixed_tokens_of(text, _NO_TOOLS)) for name, text in system_sections_of(data))
    return tuple(data.tools.names), tuple([one.name for one in data.config.agents]), sections


def faults_of_edit(session: Session, approval_id: str, arguments: JsonObject) -> list[str]:
    """Return why the tool of a pending approval does not take these arguments. Empty if it does, or nothing waits."""
    data = session._cell.owner_of(approval_id).visible.data  # noqa: SLF001 - same access
    asked = next((one.asked for one in data.interactions if one.id == approval_id), None)
    state = None if asked is None else data.batch.find(asked.call_id)
    spec = None if state is None else state.spec
    return [] if spec is None else [*spec.faults(spec.with_defaults(arguments))]


_NO_TOOLS: Final = Toolbox()
