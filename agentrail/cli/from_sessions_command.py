"""`agentrail evals from-sessions`: make cases of stored sessions."""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from agentrail.abc.store import StoredSession
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
from agentrail.evals.dataset import MAX_CASE_ID
from agentrail.evals.from_journals import case_of_journal
from agentrail.runtime.tree_secrets import without_known
from agentrail.testing.cassette import without_keys


@store_command
def from_sessions(
    directory: Path,
    *,
    chosen: ChosenSessions = EVERY_SESSION,
    limit: Annotated[
        int, Parameter(help="Maximum number of cases.", validator=validators.Number(gte=1))
    ] = 100,
    place: StorePlace = USUAL_PLACE,
) -> None:
    if (directory / "cases.jsonl").exists():  # before a cassette is written
        raise OptionError([f"{directory / 'cases.jsonl'} already exists: name a new directory"])
    cases: list[bytes] = []
    with reading(place) as opened:
        for stored in chosen.found_in(opened, place.scope):
            if stored.parent or len(cases) >= limit:
                continue
            name = _name_of(stored)
            cassette = f"cassettes/{name}.jsonl"
            try:
                walked = steps(records_of(opened, stored), sources_of(stored.session, opened.blob))
                case, lines = case_of_journal(name, walked, cassette=cassette)
            except AgentrailError as error:
                write_error(f"{shown_id(stored)} is left out: {error}")
                continue
            try:
                (directory / "cassettes").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                fault = f"{directory / 'cassettes'} cannot be made: {error.strerror}"
                raise OptionError([fault]) from error
            write_new_file(directory / cassette, [_without_secrets(lines)])
            cases.append(msgspec.json.encode(case))
    if not cases:
        raise OptionError(["no case was made: --where and --since choose no session that can be replayed"])
    write_new_file(directory / "cases.jsonl", [_without_secrets([one.decode() for one in cases])])
    say(f"{directory / 'cases.jsonl'}: {len(cases)} cases")


def _name_of(stored: StoredSession) -> str:
    """Return the id of a session, with a hash if it is too long for a case, or unique only in its scope."""
    if not stored.scope and len(stored.session) <= MAX_CASE_ID:
        return stored.session
    return f"{stored.session[:47]}-{blake2b(shown_id(stored).encode(), digest_size=8).hexdigest()}"


def _without_secrets(lines: Iterable[str]) -> bytes:
    return "".join(f"{without_keys(without_known(line))}\n" for line in lines).encode()
