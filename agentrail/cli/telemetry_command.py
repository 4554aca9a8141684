"""`agentrail telemetry`: the spans of stored sessions again, for a backend that lost them, or a new one."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import trio
from cyclopts import App, Parameter

from agentrail.abc.event_reader import SessionOrigin
from agentrail.abc.store import Store, StoredSession
from agentrail.blueprints.configuration import read_configuration
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.session_filters import EVERY_SESSION, ChosenSessions
from agentrail.cli.stdio import write_error
from agentrail.cli.store_access import (
    USUAL_PLACE,
    StorePlace,
    reading,
    say,
    shown_id,
    sources_of,
    store_command,
    write_new_file,
)
from agentrail.core.journal.spans import JournalSpan, encode_otlp
from agentrail.errors import AgentrailError, OptionError
from agentrail.frozen import EMPTY
from agentrail.runtime.session_export import stored_spans, stored_tree_of
from agentrail.runtime.tree_secrets import without_known
from agentrail.telemetry.open_telemetry import OpenTelemetry, SpanConsumer
from agentrail.telemetry.otel_variables import is_address, options_of
from agentrail.telemetry.reader import until_done

app: Final = App(name="telemetry", result_action="return_value")


@app.command(
    name="export",
    help="""Make the spans of stored sessions, the same as while they ran, and export them.

    They have the same ids, so a backend that has them already gets nothing new. Without --to they go where the variables
    OTEL_EXPORTER_OTLP_* or [telemetry] send those of running sessions. If the backend fails, the same spans are sent again after 1 second,
    then 2, up to 5 minutes. Ctrl-C stops.

    Exit codes: 0 done, 1 a session could not be read, 2 wrong usage.""",
)
@store_command
def export_stored_spans(
    *,
    chosen: ChosenSessions = EVERY_SESSION,
    to: Annotated[
        str | None, Parameter(help="A full OTLP address, or a new file for every trace as JSON.")
    ] = None,
    content: Annotated[bool, Parameter(help="Include messages, without known secrets.")] = False,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    if to is not None and "://" in to and not is_address(to):
        raise OptionError([f"--to is {to!r:.200}: expected http://HOST:PORT/v1/traces, or a new file"])
    unread: list[str] = []
    with reading(place) as opened:
        found = chosen.found_in(opened, place.scope)
        if to is None or is_address(to):
            telemetry = _telemetry(to, content=content)
            spans = _spans(opened, found, telemetry, unread)
            count, rejected = trio.run(_send, telemetry.consumer(without_known), spans)
        else:
            spans = _spans(opened, found, OpenTelemetry(content=content), unread)
            count, rejected = _write(Path(to), spans), 0
    say(f"{count} spans" + (f", of which the backend rejected {rejected}" if rejected else ""))
    return Exit.FAILED if unread else Exit.DONE


def _telemetry(to: str | None, *, content: bool) -> OpenTelemetry:
    settings = read_configuration(os.environ).check().settings
    table = {name: said.plain for name, said in settings.telemetry.items()}
    environ = {**os.environ}
    if to is not None:  # it is named here and now
        table["endpoint"] = to
        environ.pop("OTEL_SDK_DISABLED", None)
    options = options_of(environ, table)
    if options is None:
        fault = "no backend is named: use --to, OTEL_EXPORTER_OTLP_ENDPOINT, or endpoint in [telemetry]"
        raise OptionError([fault])
    given: dict[str, Any] = {"content": True} if content else {}
    return OpenTelemetry(**options | given | ({} if to is None else {"exporter": to}))


def _spans(
    store: Store, found: Iterable[StoredSession], telemetry: OpenTelemetry, unread: list[str]
) -> Iterator[list[JournalSpan]]:
    """Yield the spans of each session. Those that cannot be read are reported, and left out."""
    roots = (one for one in found if one.session == one.root)
    for one in (one for root in roots for one in stored_tree_of(store, root)):
        try:
            made = telemetry.fold(SessionOrigin(one.scope, one.session, EMPTY), without_known)
            yield stored_spans(store, one, sources_of(one.session, store.blob).ask, made)
        except AgentrailError as error:
            unread.append(one.session)
            write_error(f"session {shown_id(one)} is left out: {describe_error(error)}")


async def _send(consumer: SpanConsumer, spans: Iterator[list[JournalSpan]]) -> tuple[int, int]:
    count = 0
    for some in spans:
        count += consumer.add(some)
        await until_done(consumer.export, lambda error: write_error(f"trying again: {error}"))
    return count, consumer.rejected


def _write(file: Path, spans: Iterator[list[JournalSpan]]) -> int:
    count = 0

    def encoded() -> Iterator[bytes]:
        nonlocal count
        for some in spans:
            count += len(some)
            yield encode_otlp(some)

    write_new_file(file, encoded())
    return count
