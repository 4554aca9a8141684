"""`agentrail evals from-sessions`: make cases of stored sessions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from agentrail.cli.exit_codes import Exit
from agentrail.cli.session_filters import EVERY_SESSION, ChosenSessions
from agentrail.cli.stdio import write_error
from agentrail.cli.store_access import (
    USUAL_PLACE,
    StorePlace,
    reading,
    records_of,
    say,
    shown_id,
    sources_of,
    store_command,
    write_new_file,
)
from agentrail.core.journal.replay import steps
from agentrail.errors import AgentrailError, OptionError
from agentrail.evals.from_journals import case_of_journal
from agentrail.runtime.tree_secrets import without_known
from agentrail.testing.cassette import without_keys


@store_command
def from_sessions(
    directory: Path,
    *,
    chosen: ChosenSessions = EVERY_SESSION,
    limit: Annotated[int, Parameter(help="Maximum number of cases.")] = 100,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    cases: list[bytes] = []
    with reading(place) as opened:
        for stored in chosen.found_in(opened):
            if stored.parent or len(cases) >= limit:
                continue
            name = f"cassettes/{stored.session}.jsonl"
            try:
                walked = steps(records_of(opened, stored), sources_of(stored.session, opened.blob))
                case, lines = case_of_journal(stored.session, walked, cassette=name)
            except AgentrailError as error:
                write_error(f"{shown_id(stored)} is left out: {error}")
                continue
            (directory / "cassettes").mkdir(parents=True, exist_ok=True)
            write_new_file(directory / name, _without_secrets(lines))
            cases.append(msgspec.json.encode(case))
    if not cases:
        raise OptionError(["no case was made: --where and --since choose no session that can be replayed"])
    write_new_file(directory / "cases.jsonl", _without_secrets([one.decode() for one in cases]))
    say(f"{directory / 'cases.jsonl'}: {len(cases)} cases")
    return Exit.DONE


def _without_secrets(lines: Iterable[str]) -> bytes:
    return "".join(f"{without_keys(without_known(line))}\n" for line in lines).encode()
