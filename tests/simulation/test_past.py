"""The world `past`: a life that begins with a stored session and goes on under faults."""

import re
from contextlib import closing
from hashlib import blake2b

import pytest
import trio

from agentrail import open_supervisor, tool
from agentrail.abc.store import Opening, Standing
from agentrail.cli.command_tree import app
from agentrail.core.journal.fold import fold_journal
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.journal.record import codec_of
from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.runtime.session_export import export_stored, openings_of
from agentrail.runtime.store_summary import stored_standing
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.simulation.facts import StoreCall
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.past import Past, read_past
from agentrail.testing.simulation.sim_files import save
from tests.core.journal.golden_journals import FOLDER, JOURNALS, PLUGINS, SOURCES
from tests.thinned import IS_NIGHTLY, each

HOURS = 0.006
OPEN = ("plain", "guarded", "approved")
"""Golden journals whose sessions have not ended."""

STORED = sorted(file for file in FOLDER.rglob("*.jsonl") if file.stem in OPEN)
FILES = STORED if IS_NIGHTLY else [FOLDER / f"{name}.jsonl" for name in OPEN]


def store_of(path, records, **options):
    """Write a journal into a store of a user."""
    standing = options.pop("standing", None) or stored_standing(fold_journal(records, SOURCES).state)
    given = {"codec": codec_of(records), "root": records[0].session} | options
    opening = Opening(records=tuple(records), node="", standing=standing, **given)
    with closing(SqliteStore(path)) as store:
        store.create(opening)
    return path


def past_of(path):
    """Begin with the session `s` of a store, with the plugins of the golden journals, and leave the store as it was."""
    before = blake2b(path.read_bytes()).digest()
    with closing(SqliteStore(path, read_only=True)) as store:
        exported = b"".join(export_stored(store, store.get("", SessionId("s"))))
    past = Past(openings_of(exported), f"sqlite:{path}:s", list(PLUGINS.values()))
    report = run(past, 1, nodes=3, hours=HOURS)
    assert blake2b(path.read_bytes()).digest() == before
    return past, report


def appended(report):
    """Return the records that nodes appended to the session."""
    answered = [
        line.facts
        for line in report.log.lines
        if isinstance(line.facts, StoreCall) and line.facts.is_executed
    ]
    batches = [call.arguments["batch"] for call in answered if call.name == "append"]
    return [record for batch in batches for one in batch if one.session == "s" for record in one.records]


@pytest.mark.simulation(23)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_golden_journal_continues_under_faults(tmp_path, file):
    """All checkers hold, also in more lives. A node takes the session over, and numbers its records after those of the journal."""
    records = read_journal(file.read_bytes()).records
    past, report = past_of(store_of(tmp_path / "sessions.db", records))
    assert report.broken is None
    first, *_ = appended(report)
    assert (first.seq, first.epoch) == (len(records) + 2, records[-1].epoch + 1)  # after `taken`
    assert first.at_ms >= records[-1].at_ms
    for seed in range(2, 12 if IS_NIGHTLY else 2):
        report = run(past, seed, nodes=3, hours=5 * HOURS)
        assert report.broken is None, report.broken


@pytest.mark.simulation(23)
def test_another_journal_is_another_life(tmp_path):
    """The same seed and journal lead to the same life, with another journal to another one."""
    digests = []
    for number, name in enumerate(("plain", "plain", "guarded")):
        path = store_of(tmp_path / f"{number}.db", JOURNALS[name]())
        digests.append(past_of(path)[1].digest)
    assert digests[0] == digests[1] != digests[2]


def stored_by_a_user(path, ran):
    """Let a user's own process store a session that called a tool, and return the bytes of the store."""

    @tool(effect_class="once")
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    model = FunctionModel(lambda request: says("Done.") if ran else calls(("pay", {"amount": 3})))

    async def use():
        async with open_supervisor(store=f"sqlite:{path}") as supervisor:
            options = {"sandbox": "memory", "tools": [pay], "user_data": {"about": "shoes"}}
            session = await supervisor.start_session(session_id="paying", model=model, **options)
            assert await session.ask("Pay 3.") == "Done."

    trio.run(use)
    return path.read_bytes()


def simulate(line, capfd):
    """Run the command, and return its exit code and what it printed."""
    code = app(["simulate", *line.split()], result_action="return_value")
    told = capfd.readouterr()
    return code, told.out, told.err


def test_a_session_of_a_user_continues(tmp_path, capfd, monkeypatch):
    """Tools of a ledger take the place of its own, the life begins after its last record, and its store stays as it is."""
    ran = []
    monkeypatch.chdir(tmp_path)
    stored = stored_by_a_user(tmp_path / "mine.db", ran)
    code, told, error = simulate("--from sqlite:mine.db:paying --seed 5 --hours 0.01 --all", capfd)
    assert (code, error) == (0, "")
    assert re.search(r"pay \S+ takes effect", told)
    assert ran == [3]
    assert (tmp_path / "mine.db").read_bytes() == stored


def test_a_saved_life_needs_the_journal_that_it_began_with(tmp_path, capfd, monkeypatch):
    """It plays again from the same journal. If the session has continued since, that is said, and nothing lives."""
    monkeypatch.chdir(tmp_path)
    stored_by_a_user(tmp_path / "mine.db", [])
    past = read_past("sqlite:mine.db:paying")
    report = run(past, 3, nodes=1, hours=0.003)
    save(report, tmp_path / "seed-3.sim")
    assert simulate("seed-3.sim", capfd)[0] == 0
    with closing(SqliteStore(tmp_path / "mine.db")) as store:
        store.take("", SessionId("paying"), "another node", "start")
    read_past.cache_clear()  # another process reads it
    code, told, error = simulate("seed-3.sim", capfd)
    assert (code, told) == (2, "")
    assert "session 'paying' has changed since this life was saved" in error


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """A directory with stores from which no life can begin."""
    monkeypatch.chdir(tmp_path)
    for name in JOURNALS:
        store_of(tmp_path / f"{name}.db", JOURNALS[name](), standing=Standing(has_ended=name == "taken_over"))
    store_of(tmp_path / "newer.db", JOURNALS["plain"](), codec=99)
    return tmp_path


@each(
    ("given", "said"),
    [
        ("plain.db", "expected STORE:ID, such as sqlite:sessions.db:my-session"),
        ("sqlite:none.db:s", "none.db"),
        ("sqlite:plain.db:other", "there is no session 'other'"),
        ("sqlite:plain.db:acme/s", "there is no session 's'"),
        ("memory::s", "memory"),
        ("sqlite:plain.db:s --against m:n", "--from and --against are two worlds"),
        ("sqlite:taken_over.db:s", "ended"),
        ("sqlite:guarded.db:s", "plugin 'guard'"),
        ("sqlite:newer.db:s", "newer agentrail (codec 99"),
        ("sqlite:erased.db:s", "the content of record 7 was removed"),
    ],
)
def test_a_session_that_cannot_continue_is_refused(stores, capfd, given, said):
    """Exit code 2, and a sentence that names the session, and what is missing."""
    read_past.cache_clear()
    code, told, error = simulate(f"--from {given} --seed 1", capfd)
    assert (code, told) == (2, "")
    assert said in error


def test_a_sub_agent_alone_is_refused():
    """It continues with its root only."""
    records = tuple(JOURNALS["plain"]())
    opening = Opening(records=records, root=SessionId("top"), parent="top", node="")
    with pytest.raises(OptionError, match="'s' is a sub-agent: name its root, 'top'"):
        Past([opening], "sqlite:child.db:s")
