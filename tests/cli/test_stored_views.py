"""What commands make of one stored session: what it was behind a record, exports in each format, journals of files that are lived again.

Called as functions over a file of SQLite, in this process; `test_sessions` and `test_branches` start the command itself.
"""

import base64
import errno
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
import trio

from agentrail.abc.store import Filters
from agentrail.cli import branch_commands, sessions_command, store_access
from agentrail.cli.command_tree import app
from agentrail.cli.exit_codes import Exit
from agentrail.cli.session_views import moment
from agentrail.cli.store_access import StorePlace
from agentrail.errors import OptionError
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.scenario import run_scenario
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.cli.canary_store import write_canary_store
from tests.runtime.rig import NoSandbox


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A store with a session that waits for a person, and its sub-agent."""
    return write_canary_store(tmp_path_factory.mktemp("store") / "s.db")


@pytest.fixture
def place(file, monkeypatch):
    """Names it; no log of this process is sent elsewhere."""
    monkeypatch.setattr(store_access, "send_logs_to_stderr", lambda **_: None)
    return StorePlace(store=f"sqlite:{file}")


@pytest.fixture
def said(capfd):
    """Gives what was written since the last time: out, and err."""

    def read():
        found = capfd.readouterr()
        return found.out, found.err

    return read


def test_a_session_is_shown_as_it_was_behind_a_record_and_traced_up_to_the_last(file, place, said):
    """Each number has its state: what had been said, where it stood; -1 is the last one. A trace from behind the end is refused with the range; at the end it is empty."""
    store = SqliteStore(file, read_only=True)
    last = store.get("", "s-1").tail.seq
    store.close()
    assert sessions_command.show_session("s-1", at=-1, place=place) is Exit.DONE
    whole, _ = said()
    assert sessions_command.show_session("s-1", at=last, place=place) is Exit.DONE
    assert said()[0] == whole
    assert f"after record {last} of {last}" in whole
    assert "phase     idle" in whole
    assert "messages  6" in whole
    assert "  > How often, canary?" in whole
    assert "  Twice." in whole
    counts = []
    for number in range(1, last + 1):
        assert sessions_command.show_session("s-1", at=number, json=True, place=place) is Exit.DONE
        shown = json.loads(said()[0])
        assert shown["number"] == number
        counts.append(len(shown["messages"]))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 6)
    assert sessions_command.show_session("s-1", at=3, place=place) is Exit.DONE
    assert "phase     running" in said()[0]

    assert sessions_command.trace("s-1", after=last, place=place) is Exit.DONE
    assert said() == ("", "")
    assert sessions_command.trace("s-1", after=last + 1, place=place) is Exit.USAGE
    assert f"expected a number up to {last}" in said()[1]


@pytest.mark.at(157)
def test_a_stored_session_becomes_a_test_that_passes(tmp_path, place, said):
    """With its sub-agent's events in it; the file is played as it is."""
    file = tmp_path / "it.txt"
    assert branch_commands.export("s-1", form="scenario", file=file, place=place) is Exit.DONE
    assert said()[1] == ""
    run_scenario(file)
    text = file.read_text()
    assert "Publish SubagentEnd" in text
    assert "A canary sings." in text


@pytest.mark.journal(25)
def test_no_format_holds_a_word_without_content(place, said):
    """Of prompts, answers, arguments, results, or what a sub-agent was told."""
    for form in ("jsonl", "scenario", "markdown", "otlp"):
        assert branch_commands.export("s-1", form=form, place=place) is Exit.DONE
        assert "canary" in said()[0]
        assert branch_commands.export("s-1", form=form, no_content=True, place=place) is Exit.DONE
        bare, _ = said()
        assert bare
        assert not [word for word in ("canary", "sings", "below", "often", "Twice") if word in bare], form


@pytest.mark.journal(24)
def test_an_export_is_lived_again_with_all_of_its_sessions_unless_it_was_changed(
    tmp_path, place, said, monkeypatch
):
    """A name without a slash is a file, where one is there; the first record that is another one is named, and one without content, or of a newer version, is refused."""
    assert branch_commands.export("s-1", file=tmp_path / "e.json", place=place) is Exit.DONE
    said()
    monkeypatch.chdir(tmp_path)
    assert sessions_command.replay_journal("e.json", place=place) is Exit.DONE
    lines = said()[0].splitlines()
    assert len(lines) == 2
    assert all(line.endswith("records, identical") for line in lines)
    assert "session s-1" in lines[0]
    assert sessions_command.replay_journal("e.json", "s-1", diff=True, place=place) is Exit.DONE
    assert "do not diverge" in said()[0]
    assert sessions_command.replay_journal("e.json", explained=True, place=place) is Exit.DONE
    assert ", begun by " in said()[0]
    assert sessions_command.replay_journal("e.json", step=True, place=place) is Exit.DONE
    assert "published SubagentStart" in said()[0]

    assert branch_commands.export("s-1", place=place) is Exit.DONE
    text, _ = said()
    for changed, code, why in (
        (text.replace("A canary sings.", "A canary sinks."), Exit.FAILED, "is damaged"),
        (text.rpartition("{")[0], Exit.FAILED, "is damaged"),
        (text.replace('"agentrail_export":1', '"agentrail_export":9'), Exit.USAGE, "version 9"),
        ("{}\n", Exit.FAILED, "journal: record 1 is damaged (not a line of a journal: "),
        ("", Exit.USAGE, "holds no journal"),
    ):
        (tmp_path / "e.jsonl").write_text(changed)
        assert sessions_command.replay_journal(str(tmp_path / "e.jsonl"), place=place) is code
        assert why in said()[1]
    assert branch_commands.export("s-1", no_content=True, file=tmp_path / "n.jsonl", place=place) is Exit.DONE
    assert sessions_command.replay_journal(str(tmp_path / "n.jsonl"), place=place) is Exit.USAGE
    assert "without content" in said()[1]
    assert sessions_command.replay_journal(str(tmp_path / "none.jsonl"), place=place) is Exit.USAGE
    assert "cannot be read" in said()[1]


def test_a_file_that_cannot_be_written_whole_is_removed(tmp_path):
    """A part of an export would look like all of it, and refuse the next attempt under this name."""

    def pieces():
        yield b"a part"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OptionError, match=r"s\.jsonl cannot be written: No space left on device"):
        store_access.write_new_file(tmp_path / "s.jsonl", pieces())
    assert list(tmp_path.iterdir()) == []
    store_access.write_new_file(tmp_path / "s.jsonl", [b"all"])
    with pytest.raises(OptionError, match="already exists"):
        store_access.write_new_file(tmp_path / "s.jsonl", pieces())
    assert (tmp_path / "s.jsonl").read_bytes() == b"all"
    with pytest.raises(OptionError, match="cannot be written: embedded null byte"):
        store_access.write_new_file(tmp_path / "a\0b", pieces())


def test_a_store_is_backed_up_under_two_names(tmp_path, file, place, said):
    """`agentrail store backup` is `agentrail sessions backup`; a file that is there is not written over."""
    command, bound, _ = app.parse_args(["store", "backup", str(tmp_path / "b.db"), "--store", place.store])
    assert command is sessions_command.backup
    assert command(*bound.args, **bound.kwargs) is Exit.DONE
    assert "b.db: " in said()[0]
    copy = SqliteStore(tmp_path / "b.db", read_only=True)
    try:
        assert [one.session for one in copy.find(Filters(only_roots=True))] == ["s-1"]
    finally:
        copy.close()
    assert command(*bound.args, **bound.kwargs) is Exit.USAGE
    assert "already exists: name a new file" in said()[1]
    replay, bound, _ = app.parse_args(["replay", "s-1", "--store", place.store])
    assert replay is sessions_command.replay_journal
    assert replay(*bound.args, **bound.kwargs) is Exit.DONE


# --- a page of HTML


class TagsRead(HTMLParser):
    """The names of the tags of a page, and of their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_page_holds_the_conversation_its_spans_and_its_cost_and_is_written_once(place, said, tmp_path):
    """Its policy allows its own style sheet and nothing else. It is the whole session, so it takes no part of the records."""
    page = tmp_path / "page.html"
    assert sessions_command.trace("s-1", html=page, place=place) is Exit.DONE
    assert f"{page}: {page.stat().st_size:,} bytes" in said()[0]
    text = page.read_text(encoding="utf-8")
    shown = (
        "How often, canary?",
        "call of task",
        "It sings below.",
        "execute_tool task",
        "Cycle 2",
        "tokens in",
    )
    assert [part for part in shown if part not in text] == []
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text
    assert sessions_command.trace("s-1", html=page, place=place) is Exit.USAGE
    assert "already exists: name a new file" in said()[1]
    assert sessions_command.trace("s-1", html=tmp_path / "other.html", after=1, place=place) is Exit.USAGE
    assert "leave out --after, --limit and --json" in said()[1]
    assert not (tmp_path / "other.html").exists()


HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)><a href='javascript:alert(3)'>"


def test_a_page_shows_hostile_words_as_text_and_the_first_64_kib_of_each_value(tmp_path, monkeypatch, said):
    """What is left out is counted, and the page says which command prints it. No tag and no handler of a model or a tool gets in."""
    monkeypatch.setattr(store_access, "send_logs_to_stderr", lambda **_: None)
    huge = f"{HOSTILE}{'x' * 10_000_000}"

    async def live():
        kept = SqliteStore(tmp_path / "s.db")
        tool = RecordingTool(answer=HOSTILE)
        model = ScriptedModel([calls((tool.name, {"text": HOSTILE})), says(huge)])
        try:
            async with open_nameless(lambda _name, _root: NoSandbox(), store=kept) as supervisor:
                session = await supervisor.start_session(
                    model=model, tools=[tool], session_id="s-1", scope="acme"
                )
                await session.ask(HOSTILE)
        finally:
            kept.close()

    trio.run(live)
    page = tmp_path / "page.html"
    place = StorePlace(store=f"sqlite:{tmp_path / 's.db'}")
    assert sessions_command.trace("acme/s-1", html=page, place=place) is Exit.DONE, said()
    text = page.read_text(encoding="utf-8")
    read = TagsRead(text)
    assert not read.tags & {"script", "a", "img", "link", "iframe", "form", "object"}
    assert not {name for name in read.attributes if name.startswith("on") or name in {"style", "href", "src"}}
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("x" * 1_000) == 65
    assert re.search(r"… 9,9\d\d,\d\d\d more bytes: agentrail sessions trace acme/s-1 --json", text)


@pytest.mark.parametrize(
    ("at_ms", "shown"),
    [
        (0, "1970-01-01 00:00:00"),
        (-1, "-1 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
        (253_402_300_800_000, "253402300800000 ms"),
    ],
)
def test_a_time_that_no_calendar_has_is_shown_as_a_number(at_ms, shown):
    """Of a damaged row: it was reported as a bug."""
    assert moment(at_ms) == shown
