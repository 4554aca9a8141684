"""`agentrail store`: commands for a whole store instead of one session."""

from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from agentrail.cli.storage_options import store_arguments
from agentrail.cli.store_access import USUAL_PLACE, StorePlace, say, shown_id, store_command, writing
from agentrail.errors import OptionError
from agentrail.runtime.restored_store import note_restored
from agentrail.stores.store_names import path_of_store
from agentrail.stores.store_urls import is_shared_store, shown_store

app: Final = App(name="store", result_action="return_value")
app.command(
    "agentrail.cli.sessions_command:backup",
    name="backup",
    help="Copy the whole store to a new file, also while a process writes it; the same as `sessions backup`.",
)
app.command(
    "agentrail.cli.sessions_command:check",
    name="check",
    help="Check that stored journals are intact; the same as `sessions check`.",
)


@app.command(
    name="migrate",
    help="Create the tables of sessions in a PostgreSQL database, or upgrade them. Nodes may run meanwhile.",
)
@store_command
def migrate_store(
    *,
    nodes_role: Annotated[
        str | None, Parameter(help="Existing role of the servers, which gets the rights to read and write.")
    ] = None,
    readers_role: Annotated[
        str | None, Parameter(help="Existing role for people, which may read the views.")
    ] = None,
    print_sql: Annotated[bool, Parameter(help="Print the statements for an empty database instead.")] = False,
    place: StorePlace = USUAL_PLACE,
) -> None:
    if not is_shared_store(place.store):
        message = f"--store is {shown_store(place.store)!r:.100}: only a PostgreSQL database is migrated by a command; expected postgres://USER@HOST/DATABASE"
        raise OptionError([message])
    path_of_store(place.store, Path())
    # Imported only if needed: it needs the extra `postgres`.
    from agentrail.stores.postgres_schema import StoreRoles, migrate as bring_up, schema_sql

    roles = StoreRoles(nodes=nodes_role, readers=readers_role)
    if print_sql:
        say(schema_sql(roles))
        return
    before, after = bring_up(place.store, roles)
    upgraded = f"were upgraded from {before}" if before < after else "are current"
    done = "were created" if before == 0 else upgraded
    say(f"{shown_store(place.store)}: its tables {done}, version {after}")


@app.command(
    help="""Prepare a store that was restored from a backup, before the first server starts.

    Sessions with open work are listed, and stay parked until you resume them: in the lost time, a tool may have done that work.
    The others continue with their next message."""
)
@store_command
def restored(*, place: StorePlace = USUAL_PLACE) -> None:
    with writing(place) as store:
        found = note_restored(store)
    of = store_arguments(place.store, place.data_dir)
    for one in found.parked:
        name = shown_id(one)
        say(f"{name}: parked (restored); agentrail sessions resume {name} --on-drift go_on{of}")
    say(f"{len(found.parked)} sessions are parked, {found.idle} continue with their next message")
