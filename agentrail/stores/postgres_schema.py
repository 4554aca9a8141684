"""Tables of `PostgresStore`: their version, rights of roles, migration, and the check at open.

Ids, titles and `does` are `bytea`: they may hold NUL, and bytes sort the same under every collation. Migrations only add, so that
nodes of both versions run meanwhile.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import psycopg
from psycopg.errors import DuplicateSchema, InternalError_, UniqueViolation

from agentrail.errors import NotAStore, OptionError, StoreTooNew, StoreUnavailable
from agentrail.stores.postgres_connections import (
    ConnectionPool,
    Connector,
    PostgresConnection,
    forget,
    repeated,
)

APPLICATION_ID: Final = "agentrail store"
"""Value in the table `meta` by which a store is recognised."""

MIN_SERVER: Final = 15

_TABLES: Final = """
CREATE SCHEMA agentrail;

CREATE FUNCTION agentrail.now_ms() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint';
COMMENT ON FUNCTION agentrail.now_ms() IS 'The clock of all nodes: milliseconds since 1970.';

CREATE FUNCTION agentrail.text_of(bytea) RETURNS text LANGUAGE sql IMMUTABLE
AS 'SELECT CASE WHEN position(''\\x00''::bytea IN $1) > 0 THEN encode($1, ''escape'') ELSE convert_from($1, ''UTF8'') END';

CREATE TABLE agentrail.meta (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE agentrail.secret (name text PRIMARY KEY, value bytea NOT NULL);
INSERT INTO agentrail.secret
VALUES ('nodes', sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

CREATE TABLE agentrail.node (
    id bytea PRIMARY KEY, address bytea NOT NULL DEFAULT '', version bytea NOT NULL DEFAULT '',
    pid bigint NOT NULL DEFAULT 0, boot bytea NOT NULL DEFAULT '', load bigint NOT NULL DEFAULT 0,
    codec bigint NOT NULL DEFAULT 0, digest bytea NOT NULL DEFAULT '', lease_ms bigint NOT NULL DEFAULT 0,
    seen_at_ms bigint NOT NULL DEFAULT 0, gone_at_ms bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE agentrail.node IS 'One row per process, and one with an empty id that owns the sessions without an owner. Without a heartbeat, seen_at_ms is 0.';
INSERT INTO agentrail.node (id) VALUES ('');

-- Every owner has a row in node, so that a search for sessions of the dead starts at the nodes. A column that changes with each
-- append must be in no index: PostgreSQL then updates the row within its page (HOT).
CREATE TABLE agentrail.session (
    scope bytea NOT NULL, session bytea NOT NULL, root bytea NOT NULL, parent bytea NOT NULL,
    forked_from bytea, forked_at bigint, node bytea NOT NULL REFERENCES agentrail.node,
    opened_at_ms bigint NOT NULL, written_at_ms bigint NOT NULL,
    first_seq bigint NOT NULL, last_seq bigint NOT NULL, epoch bigint NOT NULL, hash bytea NOT NULL, events bigint NOT NULL,
    is_working boolean NOT NULL, has_ended boolean NOT NULL, waits_for bigint NOT NULL, due_at_ms bigint, title bytea NOT NULL,
    codec bigint NOT NULL, deaths bigint NOT NULL, owner bytea NOT NULL, claimed_by bytea NOT NULL DEFAULT '',
    written_slot bigint GENERATED ALWAYS AS (written_at_ms / 30000) STORED,
    PRIMARY KEY (scope, session)
) WITH (fillfactor = 70);
CREATE INDEX session_by_root ON agentrail.session (root, scope, session);
CREATE INDEX session_by_node ON agentrail.session (node, scope, session);
CREATE INDEX session_by_owner ON agentrail.session (owner, scope, session) WHERE owner <> '';
CREATE INDEX session_working ON agentrail.session (node, scope, root) WHERE is_working AND NOT has_ended;
CREATE INDEX session_due ON agentrail.session (node, due_at_ms) WHERE due_at_ms IS NOT NULL AND NOT has_ended;
CREATE INDEX session_forks ON agentrail.session (scope, forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX session_claimed ON agentrail.session (claimed_by) WHERE claimed_by <> '';
CREATE INDEX session_written ON agentrail.session (written_slot);

CREATE TABLE agentrail.record (
    scope bytea NOT NULL, session bytea NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL,
    at_ms bigint NOT NULL, kind bytea NOT NULL, events bigint NOT NULL, hash bytea NOT NULL, does bytea NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (scope, session, seq)
);

CREATE TABLE agentrail.snapshot (
    scope bytea NOT NULL, session bytea NOT NULL, seq bigint NOT NULL, hash bytea NOT NULL, state bytea NOT NULL, checked bytea NOT NULL,
    PRIMARY KEY (scope, session, seq)
);

CREATE TABLE agentrail.blob (digest bytea PRIMARY KEY, content bytea NOT NULL);
CREATE TABLE agentrail.blob_use (
    scope bytea NOT NULL, session bytea NOT NULL, digest bytea NOT NULL,
    PRIMARY KEY (scope, session, digest)
);
CREATE INDEX blob_use_by_digest ON agentrail.blob_use (digest);

CREATE TABLE agentrail.owed (
    kind bytea NOT NULL, id bytea NOT NULL, body bytea NOT NULL, node bytea NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX owed_by_node ON agentrail.owed (node, kind, id);

CREATE TABLE agentrail.allowance (key bytea PRIMARY KEY, full_at_ms double precision NOT NULL) WITH (fillfactor = 50);

CREATE VIEW agentrail.sessions AS
SELECT agentrail.text_of(scope) AS scope, agentrail.text_of(session) AS session, agentrail.text_of(root) AS root,
    agentrail.text_of(parent) AS parent, agentrail.text_of(node) AS node, agentrail.text_of(title) AS title,
    to_timestamp(opened_at_ms / 1000.0) AS opened_at, to_timestamp(written_at_ms / 1000.0) AS written_at,
    last_seq - first_seq + 1 AS records, events, is_working, has_ended, waits_for,
    to_timestamp(due_at_ms / 1000.0) AS due_at, codec, deaths
FROM agentrail.session;

CREATE VIEW agentrail.nodes AS
SELECT agentrail.text_of(id) AS node, agentrail.text_of(address) AS address, agentrail.text_of(version) AS version, pid, load, codec,
    to_timestamp(seen_at_ms / 1000.0) AS seen_at, CASE WHEN gone_at_ms > 0 THEN to_timestamp(gone_at_ms / 1000.0) END AS gone_at
FROM agentrail.node WHERE seen_at_ms > 0;
"""

# Owners, and the sessions of notes, are hashes: a name may be longer than a row of an index. `words` holds hashes of an owner and
# a word, each with the number of times that it occurs in the place of a position.
_OF_USERS: Final = (
    """CREATE TABLE IF NOT EXISTS agentrail.memory (
    number bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE, tenant bytea NOT NULL, own bytea NOT NULL, id bytea NOT NULL,
    at_ms bigint NOT NULL, session bytea NOT NULL, version bigint NOT NULL, text bytea NOT NULL, tags bytea NOT NULL,
    words tsvector NOT NULL, size bigint NOT NULL, vector_kind bytea, vector bytea,
    PRIMARY KEY (own, id)
)""",
    "CREATE INDEX IF NOT EXISTS memory_by_time ON agentrail.memory (own, at_ms, id) INCLUDE (size)",
    "CREATE INDEX IF NOT EXISTS memory_by_tenant ON agentrail.memory (tenant)",
    "CREATE INDEX IF NOT EXISTS memory_by_word ON agentrail.memory USING gin (words) WITH (fastupdate = off)",
    """CREATE TABLE IF NOT EXISTS agentrail.note (
    own bytea NOT NULL, session bytea NOT NULL, text bytea NOT NULL,
    PRIMARY KEY (own, session)
)""",
)


class StoreRoles(msgspec.Struct, frozen=True, kw_only=True):
    """Existing roles of the server that get rights. None for no grants. The role that migrates owns the tables.

    Attributes:
        nodes: Role of the nodes: reads and writes rows, changes no table.
        readers: Role for people: reads the views `sessions` and `nodes`.
        statement_timeout_seconds: Time limit for a statement of a node, a default of its role.
    """

    nodes: str | None = None
    readers: str | None = None
    statement_timeout_seconds: int = 30


class PostgresSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of a database.

    Attributes:
        steps: For each older version, the statements that upgrade it by one, each in its own transaction, so that indexes can be created
            `CONCURRENTLY`. A migration that was interrupted repeats them: they need `IF NOT EXISTS`.
    """

    version: int
    tables: str
    steps: Mapping[int, Sequence[str]] = {}


SCHEMA: Final = PostgresSchema(
    version=2, tables=_TABLES + "".join(f"{one};\n" for one in _OF_USERS), steps={1: _OF_USERS}
)
"""The current schema."""


def schema_sql(roles: StoreRoles = StoreRoles(), schema: PostgresSchema = SCHEMA) -> str:  # noqa: B008 - frozen
    """Return a script that fills an empty database, for an administrator to run."""
    return f"BEGIN;\n{_creation(schema)}\n{_grants(roles)}COMMIT;\n"


def _creation(schema: PostgresSchema) -> str:
    meta = f"('application', '{APPLICATION_ID}'), ('version', '{schema.version}')"
    return f"{schema.tables}\nINSERT INTO agentrail.meta VALUES {meta};\n"


def _grants(roles: StoreRoles) -> str:
    lines: list[str] = []
    if roles.nodes is not None:
        nodes = _quoted(roles.nodes)
        milliseconds = roles.statement_timeout_seconds * 1000
        lines += [
            f"GRANT USAGE ON SCHEMA agentrail TO {nodes};",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agentrail TO {nodes};",
            f"REVOKE INSERT, UPDATE, DELETE ON agentrail.meta, agentrail.secret FROM {nodes};",
            f"ALTER ROLE {nodes} SET statement_timeout = {milliseconds};",
            f"ALTER ROLE {nodes} SET lock_timeout = {milliseconds // 3};",
            f"ALTER ROLE {nodes} SET idle_in_transaction_session_timeout = {milliseconds};",
        ]
    if roles.readers is not None:
        readers = _quoted(roles.readers)
        lines += [
            f"GRANT USAGE ON SCHEMA agentrail TO {readers};",
            f"GRANT SELECT ON agentrail.sessions, agentrail.nodes TO {readers};",
        ]
    return "".join(f"{line}\n" for line in lines)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def migrate(
    url: str,
    roles: StoreRoles = StoreRoles(),  # noqa: B008 - frozen
    *,
    schema: PostgresSchema = SCHEMA,
) -> tuple[int, int]:
    """Create the tables in a database, or upgrade them, and grant rights. Idempotent. Nodes may run meanwhile.

    Args:
        url: URL of the database, of a role that may create a schema in it.
        roles: Roles to grant rights to.
        schema: Schema to upgrade to.

    Returns:
        The version before, 0 for none, and after.

    Raises:
        OptionError: Your move: a role does not exist, or it is not a URL.
        NotAStore: Your move: the schema `agentrail` belongs to another application.
        StoreTooNew: Your move: a newer agentrail created the tables.
        StoreUnavailable: The database cannot be reached, is too old, or the role has no right to create a schema.
    """
    connector = Connector(url, psycopg.connect)
    connection = connector.open()
    try:
        with connector.translated():
            _check_server(connection, connector.place)
            _check_roles(connection, roles)
            bring_up = partial(_bring_up, connector.place, roles, schema)
            # Another process may migrate it too: `IF NOT EXISTS` prevents none of these errors.
            return repeated(bring_up, connection, UniqueViolation, DuplicateSchema, InternalError_)
    finally:
        forget(connection)


def _bring_up(
    place: str, roles: StoreRoles, schema: PostgresSchema, connection: PostgresConnection
) -> tuple[int, int]:
    found = found_version(connection, place, schema)
    with connection.transaction():
        if found == 0:
            connection.execute(_creation(schema).encode())
    for version in range(found or schema.version, schema.version):
        for statement in schema.steps[version]:
            connection.execute(statement.encode())
        connection.execute("UPDATE agentrail.meta SET value = %s WHERE name = 'version'", (str(version + 1),))
    with connection.transaction():
        connection.execute(_grants(roles).encode())
    return found, schema.version


def _check_roles(connection: PostgresConnection, roles: StoreRoles) -> None:
    for name in (roles.nodes, roles.readers):
        if (
            name is not None
            and not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
        ):
            raise OptionError([f"the server has no role {name!r}: run CREATE ROLE {_quoted(name)} LOGIN"])


def found_version(connection: PostgresConnection, place: str, schema: PostgresSchema) -> int:
    """Return the version of a database's tables, or 0 without tables.

    Raises:
        NotAStore: The schema `agentrail` belongs to another application.
        StoreTooNew: A newer agentrail created it.
        StoreUnavailable: The role must not read it.
    """
    names = connection.execute(
        """SELECT c.relname, has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
        WHERE n.nspname = 'agentrail' AND c.relkind = 'r'"""
    ).fetchall()
    if not names:
        return 0
    if ("meta", False) in names:
        raise StoreUnavailable(_no_right(connection, place))
    values: dict[str, str] = {}
    if ("meta", True) in names:
        with suppress(psycopg.errors.UndefinedColumn):  # a table of another application
            values = dict(connection.execute("SELECT name, value FROM agentrail.meta").fetchall())
    if values.get("application") != APPLICATION_ID:
        message = f"the schema agentrail of {place} is not a store of agentrail: {values.get('application')!r} in its table meta, expected {APPLICATION_ID!r}; it was not modified. Name another database"
        raise NotAStore(message)
    version = int(values["version"])
    if version > schema.version:
        message = f"the store {place} has tables of version {version}, but this agentrail supports up to {schema.version}; it was not modified. Use the newer agentrail that migrated it"
        raise StoreTooNew(message, found=version, known=schema.version)
    return version


def _no_right(connection: PostgresConnection, place: str) -> str:
    row = connection.execute("SELECT current_user").fetchone() or ("",)
    nodes = _quoted(row[0])
    return f"role {row[0]!r} must not write to the store {place}: as the owner of its tables, run GRANT USAGE ON SCHEMA agentrail TO {nodes}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agentrail TO {nodes}"


_RISKS: Final = {
    "fsync": "a crash of the machine damages the database",
    "full_page_writes": "a crash of the machine may leave half-written pages",
    "synchronous_commit": "a crash of the server loses records that were acknowledged",
}


def check_database(
    connection: PostgresConnection, place: str, schema: PostgresSchema, *, allow_unsafe: bool = False
) -> None:
    """Check that a database can keep journals: server, settings, tables, rights.

    Raises:
        NotAStore, StoreTooNew: As in `migrate`.
        StoreUnavailable: Anything else. The message has the command to run.
    """
    _check_server(connection, place)
    if not allow_unsafe:
        _check_settings(connection, place)
    _check_tables(connection, place, schema)


def _check_tables(connection: PostgresConnection, place: str, schema: PostgresSchema) -> None:
    version = found_version(connection, place, schema)
    if version < schema.version:
        what = (
            f"has tables of version {version}, expected {schema.version}"
            if version
            else "has no tables of agentrail"
        )
        message = f"the store {place} {what}: run agentrail store migrate --store {place}, with the role that owns the database"
        raise StoreUnavailable(message)
    may_write = connection.execute(
        """SELECT bool_and(has_table_privilege(c.oid, 'SELECT') AND (c.relname IN ('meta', 'secret') OR (
            has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))))
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
        WHERE n.nspname = 'agentrail' AND c.relkind = 'r'"""
    ).fetchone()
    if may_write is None or not may_write[0]:
        raise StoreUnavailable(_no_right(connection, place))


def open_connections(url: str) -> ConnectionPool:
    """Return connections to a database after `check_database`. The caller closes them. Blocks."""
    connector = Connector(url, psycopg.connect)
    pool = ConnectionPool(connector)
    try:
        with pool.borrowed() as connection:
            check_database(connection, connector.place, SCHEMA)
    except BaseException:
        pool.close()
        raise
    return pool


def _check_server(connection: PostgresConnection, place: str) -> None:
    version = connection.info.server_version // 10_000
    if version < MIN_SERVER:
        message = f"the server of {place} is PostgreSQL {version}, expected {MIN_SERVER} or newer: upgrade it"
        raise StoreUnavailable(message)


def _check_settings(connection: PostgresConnection, place: str) -> None:
    for name, risk in _RISKS.items():
        row = connection.execute("SELECT current_setting(%s), current_user", (name,)).fetchone()
        if row is None or row[0] != "off":
            continue
        statement = f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()"
        if name == "synchronous_commit":
            statement = f"ALTER ROLE {_quoted(row[1])} SET {name} = on"
        message = f"the store {place} has {name} = off, so {risk}: run {statement}, or open it with allow_unsafe=True"
        raise StoreUnavailable(message)


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a database, for operators.

    Attributes:
        place: URL without password.
        version: Major version of its server.
        role: Role of the connection.
        owns_tables: Whether that role may alter the tables.
        has_standby: Whether a commit waits for a synchronous standby. Otherwise a failover may lose acknowledged records.
        max_connections: Connections that its server allows.
        faults: Why a server refuses it.
        is_usable: Whether it could be opened with `allow_unsafe`.
    """

    place: str
    version: int
    role: str
    owns_tables: bool
    has_standby: bool
    max_connections: int
    faults: tuple[str, ...]
    is_usable: bool


_FACTS: Final = """
SELECT current_user, current_setting('max_connections')::int, current_setting('synchronous_standby_names') <> '', COALESCE((
    SELECT bool_and(pg_has_role(c.relowner, 'USAGE')) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
    WHERE n.nspname = 'agentrail' AND c.relkind = 'r'), false)
"""


def facts_of_server(url: str, schema: PostgresSchema = SCHEMA) -> ServerFacts:
    """Return facts about a database and all faults that `check_database` would find, each at a time.

    Raises:
        OptionError: Your move: it is not a URL of PostgreSQL.
        StoreUnavailable: The database cannot be reached.
    """
    connector = Connector(url, psycopg.connect)
    connection = connector.open()
    faults: list[str] = []
    try:
        with connector.translated():
            row = connection.execute(_FACTS.encode()).fetchone()
            assert row is not None  # noqa: S101 - no table is read
            try:
                _check_settings(connection, connector.place)
            except StoreUnavailable as error:
                faults.append(str(error))
            try:
                check_database(connection, connector.place, schema, allow_unsafe=True)
                is_usable = True
            except (NotAStore, StoreTooNew, StoreUnavailable) as error:
                faults.append(str(error))
                is_usable = False
            return ServerFacts(
                place=connector.place,
                version=connection.info.server_version // 10_000,
                role=row[0],
                max_connections=row[1],
                has_standby=row[2],
                owns_tables=row[3],
                faults=tuple(faults),
                is_usable=is_usable,
            )
    finally:
        forget(connection)
