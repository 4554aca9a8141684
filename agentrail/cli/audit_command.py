"""`agentrail audit`: check an audit log, and make it again from the journals."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Annotated, Final

from cyclopts import App, Parameter

from agentrail.abc.event_reader import SessionOrigin
from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.stdio import write_all, write_error
from agentrail.cli.store_access import (
    USUAL_PLACE,
    StorePlace,
    all_sessions,
    journal_of,
    reading,
    records_of,
    say,
    shown_id,
    store_command,
)
from agentrail.cli.text_output import open_named
from agentrail.core.protocol.effects import Publish
from agentrail.errors import AgentrailError, OptionError
from agentrail.stores.audit_file import path_of_audit
from agentrail.telemetry.audit import (
    AuditLine,
    AuditTail,
    faults_of_log,
    is_decision,
    line_of,
    nodes_in,
    read_audit_line,
)
from agentrail.tools.tool_text import counted

app: Final = App(name="audit", help="Check an audit log, and make it again from the journals.")
AuditLogName = Annotated[str, Parameter(help="The log: file:PATH, or store for the file next to the store.")]
_EXPECTED: Final = re.compile(r"([1-9]\d{0,14}):([0-9a-f]{64})")


@app.command(
    help="""Check that no line of an audit log was changed, removed, moved or added in between.

    Exit codes: 0 the log is whole, 1 it is not, 2 wrong usage."""
)
@store_command
def verify(
    log: AuditLogName = "store",
    *,
    expect: Annotated[str | None, Parameter(help="A line noted earlier, as N:HASH.")] = None,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    noted = _EXPECTED.fullmatch(expect or "")
    if expect is not None and noted is None:
        raise OptionError([f"--expect is {expect!r:.80}: expected N:HASH, as this command prints it"])
    tail = AuditTail()
    is_whole, known = True, None if noted is None else (int(noted[1]), noted[2])
    for fault in faults_of_log(_read(log, place), tail, known):
        is_whole = False
        write_error(fault)
    noted_next = f" To notice later if the end is missing, note --expect {tail.n}:{tail.hash}"
    say(f"{counted(tail.n, 'line')}.{noted_next if is_whole and tail.n else ''}")
    return Exit.DONE if is_whole else Exit.FAILED


@app.command(
    help="""Print the audit log that the journals of a store give, to compare it with another one.

    The order is that of LOG, and of time for lines that it does not have."""
)
@store_command
def rebuild(log: AuditLogName | None = None, *, place: StorePlace = USUAL_PLACE) -> None:
    known = map(read_audit_line, [] if log is None else _read(log, place))
    order = {one[0].key: one[0].n for one in known if one is not None}
    lines: list[AuditLine] = []
    with reading(place) as opened:
        for stored in all_sessions(opened, Filters(scope=place.scope or None)):
            try:
                lines += _decisions_of(opened, stored)
            except AgentrailError as error:
                write_error(f"session {shown_id(stored)} is left out: {describe_error(error)}")
    tail = AuditTail()
    for line in sorted(lines, key=lambda line: (order.get(line.key, len(lines)), line.at_ms, line.key)):
        write_all(1, tail.seal(line))


def _read(log: str, place: StorePlace) -> Iterator[bytes]:
    with reading(place) if log == "store" else nullcontext() as opened:
        path = path_of_audit(log, opened)
    with open_named(path, "the audit log ") as file:
        yield from file


def _decisions_of(store: Store, stored: StoredSession) -> list[AuditLine]:
    nodes, lines = nodes_in(records_of(store, stored)), list[AuditLine]()
    for step in journal_of(store, stored).explained_steps(0, stored.tail.seq):
        user_data = step.walked.after.data.config.user_data
        origin = SessionOrigin(scope=stored.scope, session_id=stored.session, user_data=user_data)
        for effect in step.walked.effects:
            if isinstance(effect, Publish) and is_decision(effect.event):
                lines.append(line_of(origin, effect.event, nodes, lines[-1] if lines else None))
    return lines
