"""`agentrail evals journals` over a store: what it prints, which sessions it leaves out, and the tests that it makes of breaks."""

import json
import re
import runpy
import shlex

import msgspec
import pytest
import trio

from agentrail.abc.store import Opening
from agentrail.cli import journals_command, store_access
from agentrail.cli.command_tree import app
from agentrail.cli.exit_codes import Exit
from agentrail.cli.store_access import sources_of
from agentrail.core.journal.fold import first_state, walk
from agentrail.core.protocol.effects import Publish
from agentrail.evals.journal_rules import check_scenario
from agentrail.events import ToolBlocked
from agentrail.messages import SessionId, Text, UserMessage
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.core.journal.recorded import resealed
from tests.evals.desk_stacks import Careless, Sleeper, Strict
from tests.pages import fences_of
from tests.runtime.rig import NoSandbox

DESK = "tests.evals.desk_stacks"


async def lived(store, session_id, texts, plugins, **options):
    """A session of one cycle, whose model calls the tool with one text after the other, whatever comes of it."""
    tool = RecordingTool(answer="done")
    turns = [calls(*[(tool.name, {"text": text}) for text in batch]) for batch in texts]
    async with open_nameless(lambda _name, _root: NoSandbox(), store=store) as supervisor:
        model = ScriptedModel([*turns, says("Done.")])
        session = await supervisor.start_session(
            model=model, tools=[tool], plugins=plugins, session_id=session_id, **options
        )
        await session.ask("Go")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "s.db"


@pytest.fixture
def judge(file, monkeypatch, capfd):
    """Runs the command, and gives its exit code and what it said."""
    monkeypatch.setattr(store_access, "send_logs_to_stderr", lambda **_: None)

    def run(*options):
        capfd.readouterr()
        code = app(["evals", "journals", "--store", f"sqlite:{file}", *options], exit_on_error=False)
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def keep(file, *sessions, plugins=(Careless,), **options):
    """Store sessions, by name and the texts of their calls."""
    store = SqliteStore(file)

    async def live():
        for name, texts in sessions:
            await lived(store, name, texts, list(plugins), **options)

    try:
        trio.run(live)
    finally:
        store.close()


def blocked_in(file, session):
    """Give the calls that a stored session blocked, by record."""
    store = SqliteStore(file, read_only=True)
    try:
        records = store.read("", SessionId(session))
        walked = walk(first_state(records, sources_of(session, store.blob)), records)
        return [
            (one.record.seq, effect.event.call_id)
            for one in walked
            for effect in one.effects
            if isinstance(effect, Publish) and isinstance(effect.event, ToolBlocked)
        ]
    finally:
        store.close()


BATCHES = {
    "s-1": [["look", "again 1"], ["again 2"]],
    "s-2": [["look"], ["look on"]],
    "s-3": [["look"], ["again 3", "look", "again 4"]],
}


@pytest.mark.operation(18)
def test_the_calls_that_a_guard_blocks_in_a_real_run_are_those_that_are_named(file, judge, tmp_path):
    """Up to the record that is open. A session of which nothing is named has none that is blocked, and so the other way."""
    keep(file, *BATCHES.items())
    guarded = tmp_path / "guarded.db"
    keep(guarded, *BATCHES.items(), plugins=(Careless, Strict))
    assert judge() == (Exit.DONE, "3 same\n")
    code, said = judge("--against", f"{DESK}:guarded", "--json")
    assert code is Exit.FAILED
    for row in map(json.loads, said.splitlines()):
        blocked = blocked_in(guarded, row["session"])
        if row["result"] == "same":
            assert not blocked
            continue
        named = [(one["record"], one["call_id"]) for one in row["calls"]]
        assert named == [one for one in blocked if one[0] <= row["open_from"]] != []
        assert {one["by"] for one in row["calls"]} == {"strict"}
        assert row["first"] == blocked[0][0]


def test_a_difference_is_told_in_lines(file, judge):
    """The session with its first difference, its calls, and where the journal has no answer any more."""
    keep(file, *list(BATCHES.items())[:1])
    code, said = judge("--against", f"{DESK}:guarded")
    lines = said.splitlines()
    assert code is Exit.FAILED
    assert lines[0].endswith("strict: record is blocked")
    assert lines[1].strip().startswith("record ")
    assert "is blocked, strict" in lines[1]
    assert "the journal does not have the answer of the model to another conversation" in lines[2]
    assert lines[-1] == "1 differs"
    code, said = judge("--against", f"{DESK}:SHORTER")
    assert code is Exit.FAILED
    assert "tokens sent" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--against", f"{DESK}:UNKNOWN"], "max_turns"),
        (
            ["--against", f"{DESK}:NUMBER"],
            "--against is a int: expected plugins, a Blueprint, options or a function",
        ),
        (["--against", f"{DESK}:NOTHING"], "has no 'NOTHING'"),
        (["--against", "nowhere"], "package.module:NAME"),
        (["--holds", f"{DESK}:is_wrong", "--against", f"{DESK}:guarded"], "leave out --against"),
        (["--model", "demo"], "is not a model string"),
        (["--model", "demo:", "--budget-usd", "0"], "budget.max_cost_usd is 0.0"),
        (["--budget-usd", "nan"], "budget.max_cost_usd is nan"),
        (["--where", "profil=desk"], "expected profile, user, model, scope, outcome"),
        (["--where", "profile"], "with a value"),
        (["--since", "yesterday"], "expected a day such as 2026-11-01"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_expected(file, judge, options, words):
    """Before any session is read."""
    keep(file, ("s-1", [["look"]]))
    code, said = judge(*options)
    assert code is Exit.USAGE
    assert words in said


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("profile=desk", 1),
        ("user=ada", 1),
        ("outcome=finished", 2),
        ("outcome=failed", 0),
        ("scope=x", 0),
        ("model=a:b", 0),
    ],
)
def test_sessions_are_chosen_by_what_they_are(file, judge, where, count):
    """By their profile, user, model, scope and outcome; of none, the exit code says so."""
    keep(file, ("s-1", [["look"]]))
    keep(file, ("s-2", [["look"]]), user_data={"agent_id": "desk", "user_id": "ada"})
    code, said = judge("--where", where, "--since", "1d")
    expected = (Exit.DONE, f"{count} same\n") if count else (Exit.NOTHING_LEFT, "no session was chosen\n")
    assert (code, said) == expected


def test_journals_that_cannot_be_compared_are_named_and_the_rest_goes_on(file, judge):
    """Of a newer version, erased, trimmed of a plugin: each with its reason; if none is left, the exit code says so."""
    keep(file, ("s-1", [["look"]]))
    store = SqliteStore(file)
    records = store.read("", SessionId("s-1"))
    newer = msgspec.json.encode({**msgspec.json.decode(records[0].body), "version": 99})
    gone = records[0].body.replace(b"Careless", b"Vanished")
    for name, body in (("newer", newer), ("gone", gone), ("erased", records[0].body)):
        changes = {one.seq: {"session": name} for one in records}
        changes[1]["body"] = body
        store.create(Opening(records=tuple(resealed(records, changes)), root=SessionId(name), node=""))
    store.erase("", SessionId("erased"), "user forgotten")
    store.close()
    code, said = judge()
    assert code is Exit.DONE
    assert (
        "newer: left out: record 1 of session 'newer' (opened): no opened record: at $.version: it is of version 99"
        in said
    )
    assert "the content of record 1 was removed" in said
    assert re.search(
        rf"gone: left out: plugin 'careless' \(.*from {DESK}:Vanished\) cannot be imported: install its code, or name",
        said,
    )
    assert said.splitlines()[-1] == "3 left out, 1 same"
    code, said = judge("--where", "user=nobody")
    assert code is Exit.NOTHING_LEFT


def test_a_function_that_raises_leaves_its_sessions_out(file, judge):
    """Of a stack, and of a rule."""
    keep(file, ("s-1", [["look"]]))
    for option, name in (
        ("--against", "raises"),
        ("--against", "forgets_to_return"),
        ("--holds", "is_wrong"),
    ):
        code, said = judge(option, f"{DESK}:{name}")
        assert code is Exit.NOTHING_LEFT
        assert f"s-1: left out: the function of {option} raised " in said


@pytest.mark.parametrize("option", ["--against", "--holds"])
def test_code_that_ends_the_process_is_no_sameness(file, judge, option):
    """Its exit code 0 would pass in CI."""
    keep(file, ("s-1", [["look"]]))
    code, said = judge(option, f"{DESK}:ends_the_process")
    assert (code, "s-1: left out: its code ends the process: SystemExit: 0" in said) == (
        Exit.NOTHING_LEFT,
        True,
    )


def test_a_step_that_does_not_end_ends_its_session_with_the_traceback(file, judge, monkeypatch):
    """Others go on."""
    monkeypatch.setattr(journals_command, "_STEP_SECONDS", 0.1)
    keep(file, ("s-1", [["look"]]), ("s-2", []))
    code, said = judge("--against", f"{DESK}:slow")
    assert code is Exit.FAILED
    assert "s-1: raises at record " in said
    assert "the step does not end" in said
    assert "time.sleep(0.01)" in said
    assert said.splitlines()[-1] == "1 raises, 1 same"


def test_a_recorded_step_that_no_longer_ends_ends_its_session_where_a_rule_is_checked(
    file, judge, monkeypatch
):
    """Others go on, same as in a comparison."""
    monkeypatch.setattr(journals_command, "_STEP_SECONDS", 0.1)
    keep(file, ("s-1", [["look"]]), ("s-2", []))
    monkeypatch.setattr(Careless, "handle", Sleeper.handle)
    code, said = judge("--holds", f"{DESK}:nothing_is_removed")
    assert code is Exit.FAILED
    assert re.search("s-1: raises at record [1-9].*: the step does not end", said)
    assert said.splitlines()[-1] == "1 raises, 1 same"


@pytest.mark.operation(19)
def test_a_planted_bug_is_found_by_its_rule_and_becomes_a_test(file, judge, monkeypatch):
    """In one of many sessions, with the shortest prefix. The test fails as long as the plugin forgets, and passes once it is mended."""
    calm = [(f"s-{number}", [["look", "remove it", "look"]]) for number in range(12)]
    keep(file, *calm, ("s-x", [["look", "remove it"], ["remove it"], ["look"]]))
    code, said = judge("--holds", f"{DESK}:nothing_is_removed", "--json")
    assert code is Exit.FAILED
    (row,) = [one for one in map(json.loads, said.splitlines()) if one["result"] != "same"]
    assert (row["session"], row["result"]) == ("s-x", "breaks")
    assert row["what"] == "the rule is broken: it returned False"
    store = SqliteStore(file, read_only=True)
    kinds = [one.kind for one in store.read("", SessionId("s-x"))]
    store.close()
    assert kinds[row["first"] - 1] == "tool_finished"  # of the call that should not have run
    assert row["first"] < len(kinds)
    with pytest.raises(AssertionError, match="breaks the rule: it returned False"):
        check_scenario(row["scenario"])
    monkeypatch.setattr(Careless, "mended", True)
    check_scenario(row["scenario"])
    assert judge("--holds", f"{DESK}:nothing_is_removed")[1].splitlines()[-1] == "12 same, 1 left out"


def test_a_break_in_a_session_that_no_scenario_can_tell_is_named_with_the_reason(file, judge):
    """Here: one that continues a conversation from elsewhere."""
    earlier = (UserMessage(content=(Text(text="Hello"),)),)
    keep(file, ("s-1", [["look", "look", "remove it"]]), messages=earlier)
    code, said = judge("--holds", f"{DESK}:nothing_is_removed")
    assert code is Exit.FAILED
    assert "s-1: breaks at record " in said
    assert "# session 's-1' cannot be written as a scenario" in said


def test_another_model_is_asked_each_turn_again(file, judge):
    """With what differs, and what it cost; a budget that is spent leaves the rest out."""
    keep(file, ("s-1", [["look"]]), ("s-2", []))
    code, said = judge("--model", "demo:fast")
    lines = said.splitlines()
    assert code is Exit.FAILED
    assert lines[0].startswith("s-1: 1 of 1 answers differ, $0.0")
    assert "of the text, other calls: " in lines[1]
    assert lines[-1] == "2 differs"
    row = json.loads(judge("--model", "demo:fast", "--json")[1].splitlines()[1])
    assert (row["session"], row["asked"], row["unasked"]) == ("s-2", 1, "")
    assert row["turns"][0]["likeness"] < 1


def test_the_commands_of_the_page_say_what_it_shows(tmp_path, monkeypatch, judge, capfd):
    """Over a store that the program of the page has written."""
    fences = list(fences_of("docs/how-to/before-you-change-a-prompt.md"))
    desk, tomorrow = [one.body for one in fences if one.kind == "python"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.py").write_text(desk)
    (tmp_path / "tomorrow.py").write_text(tomorrow)
    runpy.run_path("desk.py", run_name="__main__")
    for console in [one.body.splitlines() for one in fences if one.kind == "console"]:
        capfd.readouterr()
        code = app(shlex.split(console[0].removeprefix("$ agentrail ")), exit_on_error=False)
        shown = [line for line in console[1:] if line != "…"]
        assert (code, capfd.readouterr().out.splitlines()[: len(shown)]) == (Exit.FAILED, shown)
