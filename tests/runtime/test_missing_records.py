"""A stored journal with missing or unreadable records: each reader names the first, and no other session is affected."""

from functools import partial

import apsw
import pytest
import trio

from agentrail.errors import CodecError, JournalCorrupt
from agentrail.runtime.journal_inspection import WantedRecords
from agentrail.stores.sqlite import SqliteStore
from tests.runtime.rig import on_bounded_time, open_over, saying

pytestmark = on_bounded_time

READS = {
    "records": lambda supervisor: supervisor.find_records("s-1", WantedRecords(after=4)),
    "last_records": lambda supervisor: supervisor.find_records("s-1", WantedRecords(before=9, limit=2)),
    "records_of_a_plugin": lambda supervisor: supervisor.find_records("s-1", WantedRecords(plugin="p")),
    "state": lambda supervisor: supervisor.plain_state_at("s-1", 7),
    "present_state": lambda supervisor: supervisor.stored_state("s-1"),
    "explanation": lambda supervisor: supervisor.explain_record("s-1", 7),
    "events": lambda supervisor: supervisor.events_page("s-1"),
    "export": lambda supervisor: supervisor.export_session("s-1"),
    "sizes": lambda supervisor: supervisor.export_session("s-1", content=False),
    "markdown": lambda supervisor: supervisor.export_session("s-1", format="markdown"),
    "spans": lambda supervisor: supervisor.export_session("s-1", format="otlp"),
    "resumed": lambda supervisor: supervisor.resume_session("s-1", model=saying("b")),
}


async def lose(path, which, how="DELETE FROM record"):
    """Store two sessions, and remove or change some records of the first."""
    store = SqliteStore(path)
    async with open_over(store) as supervisor:
        for session in ("s-1", "s-2"):
            started = await supervisor.start_session(model=saying("a", "b"), session_id=session)
            for prompt in ("Hi", "And now?"):
                await started.ask(prompt)
    store.close()
    with apsw.Connection(str(path)) as connection:
        connection.execute(f"{how} WHERE session = 's-1' AND {which}")
    connection.close()
    return SqliteStore(path)


async def first_missing(read):
    with pytest.raises(JournalCorrupt, match=r"'s-1'.*it is missing") as raised, trio.fail_after(10):
        await read()
    return raised.value.seq


@pytest.mark.journal(24)
async def test_a_journal_without_its_last_records_is_not_taken_for_a_shorter_one(tmp_path):
    """Nothing is shown or exported as if the session had ended earlier, no call hangs, and no session continues in the past."""
    store = await lose(tmp_path / "s.db", "seq > 4")
    async with open_over(store) as supervisor:
        found = {name: await first_missing(partial(read, supervisor)) for name, read in READS.items()}
        page = await supervisor.find_records("s-1", WantedRecords(limit=4))
    store.close()
    assert found == dict.fromkeys(READS, 5)
    assert [one.number for one in page.entries] == [1, 2, 3, 4]


async def test_a_journal_without_its_first_record_harms_no_other(tmp_path):
    """Facts, usage and a resume tell of the record, and the usage of the other session is still known."""
    store = await lose(tmp_path / "s.db", "seq < 3")
    async with open_over(store) as supervisor:
        for read in (partial(supervisor.facts_of, "s-1"), partial(READS["resumed"], supervisor)):
            assert await first_missing(read) == 1
        spendings = {one.session_id: one.fault for one in await supervisor.spendings()}
    store.close()
    assert "record 1 is damaged" in spendings["s-1"]
    assert spendings["s-2"] is None


async def test_records_next_to_a_gap_are_listed_once(tmp_path):
    """Pages in both directions pass over the gap, as a salvage leaves it, and end."""
    store = await lose(tmp_path / "s.db", "seq = 4")
    async with open_over(store) as supervisor:
        forth, after = [], 0
        while after is not None:
            page = await supervisor.find_records("s-1", WantedRecords(after=after, limit=1))
            forth, after = [*forth, *page.entries], page.next
        back, before = [], forth[-1].number + 1
        while before is not None:
            page = await supervisor.find_records("s-1", WantedRecords(before=before, limit=1))
            back, before = [*back, *page.entries], page.previous
        with pytest.raises(JournalCorrupt, match="record 4 is damaged"):
            await supervisor.export_session("s-1")
    store.close()
    numbers = [one.number for one in forth]
    assert numbers == [1, 2, 3, *range(5, numbers[-1] + 1)]
    assert [one.number for one in reversed(back)] == numbers


async def test_an_unreadable_record_is_named_by_lists(tmp_path):
    """Lists do not check hashes, so they meet a body that a disk has cut off. Those before it are still listed."""
    store = await lose(tmp_path / "s.db", "seq = 4", "UPDATE record SET body = substr(body, 1, 9)")
    async with open_over(store) as supervisor:
        for read in (
            partial(supervisor.stored_journal, "s-1"),
            partial(supervisor.find_records, "s-1", WantedRecords(text="Hi")),
        ):
            with pytest.raises(
                CodecError, match=r"record 4 of session 's-1' \(stream_started\) cannot be read"
            ):
                await read()
        assert len(await supervisor.stored_journal("s-1", limit=3)) == 3
    store.close()
