"""Passwords of a database (M-022): whatever goes wrong, they are in no output, no log, no export and no row."""

import logging
from contextlib import suppress
from urllib.parse import quote

import pytest
import trio

from agentrail import open_supervisor
from agentrail.errors import AgentrailError
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import migrate
from agentrail.testing.models import FunctionModel, says
from tests.cli.rig import run_beside
from tests.postgres import postgres_environ

PASSWORD = "kQng/fQ:shQ@erQ %41"  # noqa: S105 - a canary
FORMS = ("kQng", "fQ:shQ", "fQ%3A", "erQ %41", "erQ%20")


def leaks(text):
    """Return the parts of the password in a text, plain or as in a URL."""
    return [form for form in FORMS if form in text]


@pytest.fixture
def role(postgres_server):
    """A role with the password, which owns nothing else."""
    name = "canary"
    quoted = PASSWORD.replace("'", "''")
    postgres_server.run_sql(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{quoted}'")
    yield name
    postgres_server.run_sql(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.mark.machine(22)
async def test_a_password_is_in_no_output_log_export_or_row(
    postgres_server, postgres_url, role, tmp_path, caplog
):
    """Whether it comes from the URL or from PGPASSFILE, and whatever the database answers."""
    caplog.set_level(logging.DEBUG)
    migrate(postgres_url)
    database = postgres_url.rpartition("/")[2]
    place = f"127.0.0.1:{postgres_server.port}"
    with_password = f"postgres://{role}:{quote(PASSWORD, safe='')}@{place}/{database}"
    bare = f"postgres://{role}@{place}/{database}"
    passwords = tmp_path / "passwords"
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    passwords.write_text(f"127.0.0.1:{postgres_server.port}:*:{role}:{escaped}\n")
    passwords.chmod(0o600)
    said = []

    async def ask(*arguments, **variables):
        given = {"AGENTRAIL_DATA_DIR": str(tmp_path / "data"), **variables}
        ran = await run_beside(*arguments, variables=given)
        said.append(ran.out + ran.err)
        return ran

    with trio.fail_after(180):
        model = FunctionModel(lambda _: says("done"))
        async with open_supervisor(
            store=with_password, data_dir=tmp_path / "one", advertise="http://127.0.0.1:8701", lease=3.0
        ) as one:
            session = await one.start_session(session_id="s", model=model)
            assert await session.ask("Hi") == "done"
            said.append(repr(one.statistics()) + repr(await one.cluster_facts()))
            await ask("nodes", "list", AGENTRAIL_STORE=with_password)
            assert said[-1]
            assert "8701" in (await ask("nodes", "list", AGENTRAIL_STORE=bare, PGPASSFILE=str(passwords))).out
            assert (await ask("doctor", "--model", "demo:", AGENTRAIL_STORE=with_password)).code == 0
            await ask("sessions", "export", "s", AGENTRAIL_STORE=bare, PGPASSFILE=str(passwords))
            await ask("nodes", "list", "--store", with_password)  # refused or warned about
            postgres_server.terminate_connections(database)
            assert await session.ask("And now?") == "done"
            with suppress(AgentrailError):
                postgres_server.kill()
                with trio.move_on_after(10):
                    await session.ask("And now?")
            postgres_server.start()
    wrong = PASSWORD + "x"
    passwords.write_text(f"127.0.0.1:{postgres_server.port}:*:{role}:{escaped}x\n")
    for url in (
        f"postgres://{role}:{quote(wrong, safe='')}@{place}/{database}",
        f"{with_password}x",
        f"{with_password}?sslmode=verify-full",
        f"{with_password}?options=-cno_such_setting%3D1",
        with_password.replace(f":{postgres_server.port}/", ":1/"),
        f"{with_password}?sslpassword={quote(PASSWORD, safe='')}&sslkey=/none&sslcert=/none&sslmode=require",
        f"postgres://{role}:{PASSWORD}@{place}/{database}",
        f"postgres://{role}:kQng/fQ:shQ@{place}/{database}",
        f"postgres://{role}:kQng%zz@{place}/{database}",
    ):
        with pytest.raises(AgentrailError) as caught:
            PostgresStore(url)
        error = caught.value
        while error is not None:
            said.append(f"{error} {error!r}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if "?" in url or "%zz" in url:
            assert (await ask("nodes", "list", AGENTRAIL_STORE=url)).code == 2
    assert (await ask("nodes", "list", AGENTRAIL_STORE=bare, PGPASSFILE=str(passwords))).code == 2

    dump = [postgres_server.program("pg_dump"), "--inserts", postgres_url]
    dumped = (await trio.run_process(dump, capture_stdout=True, env=postgres_environ())).stdout.decode()
    logged = [repr(record.__dict__) for record in caplog.records]
    assert [(found, one) for one in (*said, dumped, *logged) if (found := leaks(one))] == []
