"""`agentrail store` on a PostgreSQL database."""

import re
from contextlib import closing

import pytest

from agentrail.abc.store import Node
from agentrail.stores.postgres import PostgresStore
from tests.cli.rig import run_beside


@pytest.mark.machine(18)
async def test_a_database_is_migrated_and_read(postgres_url, monkeypatch, tmp_path):
    """The password comes from the environment, and is in no output."""
    url, password = without_password(postgres_url)
    variables = {"PGPASSWORD": password, "AGENTRAIL_DATA_DIR": str(tmp_path)}

    async def ask(*arguments):
        ran = await run_beside(*arguments, "--store", url, variables=variables)
        assert password not in ran.out + ran.err
        return ran

    missing = await ask("sessions", "list")
    assert "only a PostgreSQL database" in (await run_beside("store", "migrate", variables=variables)).err
    assert missing.code == 2
    assert f"agentrail store migrate --store {url}" in missing.err
    made = await ask("store", "migrate")
    assert (made.code, "its tables were created" in made.out) == (0, True)
    again = await ask("store", "migrate")
    assert "its tables are current" in again.out
    assert "CREATE TABLE agentrail.session" in (await ask("store", "migrate", "--print-sql")).out
    assert "has no role 'nobody_here'" in (await ask("store", "migrate", "--nodes-role", "nobody_here")).err
    assert (await ask("sessions", "list")).code == 0
    variables["AGENTRAIL_STORE"] = url
    for command in (("store", "restored"), ("store", "check"), ("nodes", "list"), ("sessions", "list")):
        ran = await run_beside(*command, variables=variables)
        assert (ran.code, password in ran.out + ran.err) == (0, False), ran.err
    named = await run_beside("store", "migrate", "--store", "sqlite:", variables=variables)
    assert "only a PostgreSQL database" in named.err
    refused = await ask("nodes", "drain", "n-1")
    assert (refused.code, "'n-1' is not a living node: no node is alive" in refused.err) == (2, True)
    with closing(PostgresStore(postgres_url)) as store:
        store.beat(Node(id="n-1", address="http://127.0.0.1:1"))
    refused = await ask("nodes", "drain", "n-1", "--node-ca", "/nowhere")
    assert (refused.code, "node_ca is '/nowhere', which cannot be used" in refused.err) == (2, True)
    for wrong in ("nan", "inf", "-1"):
        refused = await ask("nodes", "move", "s", "--within", wrong)
        assert (refused.code, "expected finite seconds >= 0" in refused.err) == (2, True)
    assert "0 sessions are intact" in (await ask("store", "check")).out
    assert "pg_dump" in (await ask("store", "backup", str(tmp_path / "x"))).err
    variables |= {"AGENTRAIL_MODEL": "demo:fast", "HOME": str(tmp_path)}
    kept = await ask("run", "--keep", "Hi")
    assert kept.code == 0, kept.err
    (session,) = re.findall("^s-[0-9a-f]+", (await ask("sessions", "list")).out)
    resumed = await ask("sessions", "resume", session)
    assert (resumed.code, resumed.out) == (0, "1 of 1 sessions came back\n"), resumed.err


def without_password(url):
    before, _, rest = url.partition("@")
    _, _, user = before.partition("://")
    name, _, password = user.partition(":")
    return f"postgres://{name}@{rest}", password
