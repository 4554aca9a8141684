"""A dump of a database that is restored with PostgreSQL's own programs, and prepared by `agentrail store restored` (M-029)."""

import subprocess

import pytest
import trio

from agentrail import open_supervisor, tool
from agentrail.errors import CursorAhead, JournalBehind
from agentrail.stores.postgres_schema import migrate
from agentrail.testing.models import FunctionModel, calls, says
from tests.cli.rig import run_beside, wait_until
from tests.cli.test_store import without_password
from tests.postgres import postgres_environ

LOST_PROMPTS = 200


class Payments:
    """A `once` tool that waits until it may end, with a ledger outside any session."""

    def __init__(self):
        self.ledger, self.may_end = [], trio.Event()

        @tool(effect_class="once")
        async def pay() -> str:
            """Pay."""
            self.ledger.append("paid")
            await self.may_end.wait()
            return "paid"

        self.tool = pay

    def options(self, _opening=None):
        def answer(request):
            return calls(("pay", {})) if "please pay" in str(request.messages[-1]) else says("done")

        return {"model": FunctionModel(answer), "tools": [self.tool]}


@pytest.fixture
def copy(postgres_server):
    """Restore a dump into a database of its own, whose URL is returned."""
    names = []

    def restore(url, file):
        def run(program, *arguments):
            command = [postgres_server.program(program), *arguments]
            subprocess.run(command, check=True, capture_output=True, env=postgres_environ())

        if not file.exists():
            run("pg_dump", "--format=custom", f"--file={file}", url)
            return None
        names.append(postgres_server.create_database())
        made = postgres_server.cluster.port_url_of(names[-1])
        run("pg_restore", f"--dbname={made}", str(file))
        return made

    yield restore
    for name in names:
        postgres_server.drop_database(name)


async def prepare(url, tmp_path):
    place, password = without_password(url)
    variables = {"PGPASSWORD": password, "AGENTRAIL_DATA_DIR": str(tmp_path / "data")}
    ran = await run_beside("store", "restored", "--store", place, variables=variables)
    assert password not in ran.out + ran.err
    return ran


@pytest.mark.machine(29)
async def test_open_work_of_a_restored_dump_is_parked_and_the_rest_continues(postgres_url, copy, tmp_path):
    """Open work of a restored dump is parked and listed, the rest continues, and a reader of the lost time is told."""
    pay, dump = Payments(), tmp_path / "dump"
    migrate(postgres_url)
    given = {"lease": 3.0, "resume": "working", "revive": pay.options}
    with trio.fail_after(180):
        async with open_supervisor(
            store=postgres_url, data_dir=tmp_path / "one", advertise="http://127.0.0.1:8701", **given
        ) as one:
            idle = await one.start_session(session_id="idle", **pay.options())
            assert await idle.ask("Hi") == "done"
            busy = await one.start_session(session_id="busy", **pay.options())
            await busy.prompt("please pay")
            await wait_until(lambda: pay.ledger)
            await trio.to_thread.run_sync(copy, postgres_url, dump)
            pay.may_end.set()  # what follows is lost
            for number in range(LOST_PROMPTS):
                assert await idle.ask(f"Hi {number}") == "done"
            assert await idle.ask("please pay") == "done"
            last = (await idle.snapshot()).last_seq
            refused = await prepare(postgres_url, tmp_path)
            assert (refused.code, f"{one.shared_node} at http://127.0.0.1:8701" in refused.err) == (2, True)
        assert len(pay.ledger) == 2

        restored = await trio.to_thread.run_sync(copy, postgres_url, dump)
        while (told := await prepare(restored, tmp_path)).code:  # its node may still look alive in the dump
            assert "repeat this in" in told.err
            await trio.sleep(0.5)
        assert "busy: parked (restored)" in told.out
        assert "1 sessions are parked, 1 continue with their next message" in told.out
        async with open_supervisor(store=restored, data_dir=tmp_path / "two", **given) as two:
            await wait_until(two.parked_sessions)
            assert [(one.session_id, "restored" in one.reason) for one in two.parked_sessions()] == [
                ("busy", True)
            ]
            with pytest.raises(JournalBehind):
                await two.resume_session("busy")
            again = await two.resume_session("idle")
            with pytest.raises(CursorAhead):
                async with again.subscribe(after=last):
                    pass
            assert await again.ask("Hi") == "done"
            await two.resume_session("busy", on_drift="go_on")
            await trio.sleep(1)
        assert len(pay.ledger) == 2
