"""`agentrail eval` and `evals calibrate`, on the files of the page: offline, in the order in which a reader meets them."""

import json
import os
import shlex
import signal
import sys
from functools import partial
from importlib import import_module

import pytest
import trio
import yaml
from junitparser import Failure, JUnitXml

import agentrail
from agentrail.cli.eval_command import report_lines
from agentrail.errors import Overloaded
from agentrail.evals.dataset import read_cases
from agentrail.evals.report import CaseRun, EvalReport, decode_report
from agentrail.evals.scorers import Score
from agentrail.evals.statistics import RESAMPLES
from agentrail.testing.models import ScriptedModel, calls, fails, says
from tests.cli.rig import command, run_agentrail
from tests.pages import fences_of

PAGE = "docs/how-to/run-evals-in-ci.md"


@pytest.fixture
def desk(tmp_path):
    """The files that the page shows, under the names that it gives them."""
    names = {"toml": "eval.toml", "json": "cases.jsonl", "yaml": "evals.yml"}
    fences = list(fences_of(PAGE))
    for fence in fences:
        if fence.kind in names:
            (tmp_path / names[fence.kind]).write_text(fence.body)
    (tmp_path / "desk.py").write_text(next(one.body for one in fences if one.kind == "python"))
    return tmp_path


async def run(place, line, **variables):
    return await run_agentrail(
        *shlex.split(line), cwd=place, variables={"AGENTRAIL_DATA_DIR": str(place / "data"), **variables}
    )


def change(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8", errors="surrogateescape")


@pytest.mark.operation("O-011")
async def test_the_steps_of_the_page_run_as_they_stand(desk):
    """The report of the main branch first, then each step of the workflow that is a command; green, and its files can be read."""
    (console,) = [one.body for one in fences_of(PAGE) if one.kind == "console"]
    shown = console.splitlines()
    ran = await run(desk, shown[0].removeprefix("$ agentrail "))
    assert (ran.code, ran.out.splitlines()[:2]) == (0, shown[1:3]), ran.err
    steps = yaml.safe_load((desk / "evals.yml").read_text())["jobs"]["evals"]["steps"]
    lines = [one["run"] for one in steps if "run" in one]
    assert [line.split()[0] for line in lines] == ["pip", "agentrail"]
    ran = await run(desk, lines[1].removeprefix("agentrail "))
    assert ran.code == 0, ran.out
    assert "against the baseline: 0.000 [0.000, 0.000]" in ran.out
    report = decode_report((desk / "report.json").read_bytes(), "report.json")
    assert [(one.case, one.repeat, one.value) for one in report.runs] == [
        ("monday", 1, 1), ("monday", 2, 1), ("sunday", 1, 1), ("sunday", 2, 1),
    ]  # fmt: skip
    (suite,) = JUnitXml.fromfile(str(desk / "evals.xml"))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (4, 0, 0, 0)
    assert [(one.classname, one.name, one.result) for one in suite][-1] == ("eval", "sunday[2]", [])


@pytest.mark.operation("O-011")
async def test_a_planted_regression_fails_the_build_and_names_the_case(desk):
    """And how to see its session, which is in the store."""
    await run(desk, "eval eval.toml --report baseline.json")
    change(desk / "desk.py", '"closed"}', '"open"}')
    ran = await run(
        desk, "eval eval.toml --fresh --baseline baseline.json --fail-below 0.9 --junit evals.xml"
    )
    assert ran.code == 1
    assert "  broken: sunday\n" in ran.out
    assert "  sunday[1] 0.67 contains: 'On that day: open.' lacks ['closed']" in ran.out
    assert "FAIL sunday[1] 0.67" in ran.err
    (show, _) = [line.strip() for line in ran.out.splitlines() if "sessions show" in line]
    shown = await run(desk, show.removeprefix("agentrail "))
    assert (shown.code, "opening_hours" in shown.out) == (0, True), shown.err
    (suite,) = JUnitXml.fromfile(str(desk / "evals.xml"))
    broken = [one for one in suite if one.result]
    assert [one.name for one in broken] == ["sunday[1]", "sunday[2]"]
    assert broken[0].result[0].message == "contains: 'On that day: open.' lacks ['closed']"
    assert (suite.failures, isinstance(broken[0].result[0], Failure)) == (2, True)
    change(desk / "desk.py", '"open"}', '"closed"}')
    ran = await run(desk, "eval eval.toml --fresh --fail-below 0.9")
    assert ran.code == 0


async def test_a_mean_that_equals_the_bar_passes(desk):
    """Three scores of 0.7 have the mean 0.7, although their sum in binary is less than 2.1."""
    with (desk / "desk.py").open("a") as file:
        file.writelines(
            f"\n\ndef {name}(_trace, _case):\n    return 0.7\n" for name in ("one", "two", "three")
        )
    (scorers,) = [
        line for line in (desk / "eval.toml").read_text().splitlines() if line.startswith("scorers")
    ]
    change(desk / "eval.toml", scorers, 'scorers = ["desk:one", "desk:two", "desk:three"]')
    ran = await run(desk, "eval eval.toml --fail-below 0.7 --report report.json")
    assert decode_report((desk / "report.json").read_bytes(), "report.json").mean < 0.7
    assert ran.code == 0, ran.out


@pytest.mark.operation("O-012")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
async def test_the_same_command_runs_the_rest_of_an_eval_that_was_stopped(desk, sent, code):
    """Ctrl-C and a kill, while the second case hangs. After Ctrl-C the report so far is there."""
    change(desk / "desk.py", "def answer(request):", "import trio\n\n\nasync def answer(request):")
    change(
        desk / "desk.py",
        "    if isinstance",
        "    if 'Sunday' in str(last) and not __import__('os').path.exists('go'):\n        await trio.sleep_forever()\n    if isinstance",
    )
    variables = {**os.environ, "AGENTRAIL_DATA_DIR": str(desk / "data")}
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            line = command("eval", "eval.toml", "--report", "part.json")
            start = partial(
                trio.run_process, line, cwd=desk, env=variables, check=False, capture_stdout=True, stderr=-1
            )
            process = await nursery.start(start)
            seen = b""
            while seen.count(b"pass monday") < 2:
                seen += await process.stderr.receive_some()
            process.send_signal(sent)
            assert await process.wait() == code
            nursery.cancel_scope.cancel()
    if sent is signal.SIGINT:
        part = decode_report((desk / "part.json").read_bytes(), "part.json")
        assert [one.case for one in part.runs] == ["monday", "monday"]
    (desk / "go").touch()
    ran = await run(desk, "eval eval.toml --fail-below 1")
    assert ran.code == 0, ran.err
    assert "4 runs, 2 of them done before" in ran.out


REFUSED = [
    ("cases.jsonl", '"sunday"', "3", "cases.jsonl:2: Expected `str`, got `int` - at `$.id`"),
    ("cases.jsonl", '{"id": "sunday"', '{"id" "sunday"', "cases.jsonl:2: Expecting ':' delimiter"),
    ("eval.toml", '"contains"', '"containz"', "there is no scorer 'containz': did you mean 'contains'?"),
    ("eval.toml", '"contains"', '"desk:nothing"', "'desk' has no 'nothing'"),
    ("eval.toml", '"desk:desk"', '"dask:desk"', "No module named 'dask'"),
    (
        "eval.toml",
        '"desk:desk"',
        '"desk:HOURS"',
        "desk:HOURS gives no blueprint: TypeError: 'dict' object is not callable",
    ),
    (
        "eval.toml",
        '"desk:desk"',
        '"desk:answer"',
        "desk:answer gives no blueprint: AttributeError: 'Case' object",
    ),
    ("eval.toml", '"desk:desk"', '"sys:exit"', "sys:exit gives no blueprint: SystemExit: Case("),
    ("eval.toml", 'task = "desk:desk"', "", "eval.toml names no task"),
    ("eval.toml", "repeats = 2", "repaets = 2", "eval.toml: repaets: unknown key, did you mean 'repeats'"),
    ("eval.toml", "repeats = 2", "repeats = ", "eval.toml: Invalid value (at line 3"),
    ("eval.toml", "cases.jsonl", "nothing.jsonl", "nothing.jsonl cannot be read: No such file"),
    ("eval.toml", "repeats = 2", "repeats = 0", "repeats 0"),
    ("cases.jsonl", "When", "Wh\udcff", "cases.jsonl is not UTF-8, at byte "),
    ("eval.toml", "desk", "d\udcff", "eval.toml is not UTF-8, at byte "),
]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("--report .", ". cannot be written"),
        ("--report to-nowhere", "to-nowhere cannot be written"),
        (
            "--junit none/evals.xml",
            "none/evals.xml cannot be written: name a file in a directory that you can",
        ),
        ("--fail-below nan", "--fail-below is nan: expected a score from 0 to 1"),
        ("--fail-below 90", "--fail-below is 90.0"),
        ("--data-dir eval.toml/data", "no sessions can be stored in 'eval.toml/data': "),
    ],
)
async def test_options_that_cannot_be_kept_are_refused_before_anything_runs(desk, options, fault):
    """A bar that is no number would let everything pass, and a report that cannot be written is lost when all is paid."""
    (desk / "to-nowhere").symlink_to("no/report.json")
    ran = await run(desk, f"eval eval.toml {options}")
    assert (ran.code, ran.out, fault in ran.err) == (2, "", True), ran.err


async def test_a_link_to_itself_is_replaced_by_the_report(desk):
    """Every run was paid for, and then following the link was a bug of ours."""
    (desk / "report.json").symlink_to("report.json")
    ran = await run(desk, "eval eval.toml --report report.json")
    assert (ran.code, "bug" in ran.err) == (0, False), ran.err
    assert (desk / "report.json").is_file()


async def test_a_disk_that_is_full_and_a_reader_that_left_are_no_bugs(desk):
    """The report is written first, so that it is there when the output is cut off."""
    ran = await run(desk, "eval eval.toml --report /dev/full")
    assert (ran.code, ran.err.splitlines()[-1]) == (
        2, "agentrail: /dev/full cannot be written: No space left on device.",
    )  # fmt: skip
    report = desk / "report.json"
    report.write_text("An earlier one.")
    line = shlex.join(command("eval", "eval.toml", "--store", "memory:", "--report", report.name))
    full = await trio.run_process(
        ["sh", "-c", f"ulimit -f 1; {line}"], cwd=desk, check=False, capture_stderr=True
    )
    assert (full.returncode, report.read_text()) == (2, "An earlier one."), full.stderr
    assert b"report.json cannot be written: File too large" in full.stderr
    assert not [*desk.glob(".report*")]
    script = f"{shlex.join(command('eval', 'eval.toml', '--report', 'report.json'))} | true"
    await trio.run_process(
        ["sh", "-c", script],
        cwd=desk,
        env={**os.environ, "AGENTRAIL_DATA_DIR": str(desk / "data")},
        capture_stderr=True,
    )
    assert len(decode_report((desk / "report.json").read_bytes(), "report.json").runs) == 4


async def test_no_answer_and_no_case_moves_the_cursor(desk):
    """A model, or a dataset from elsewhere, must not write to the terminal what it likes, nor a line of results."""
    change(desk / "desk.py", '"closed"}', '"closed\\x1b[2J\\nall 1.000"}')
    change(desk / "cases.jsonl", '"id": "sunday"', '"id": "sun\\u001b\\nday"')
    change(desk / "eval.toml", '["contains", ', '["json_equals", ')
    ran = await run(desk, "eval eval.toml --junit evals.xml")
    assert (ran.code, "\x1b" in ran.out + ran.err) == (0, False), ran.err
    assert "json_equals: got On that day: closed[2J all 1.000" in ran.out
    assert "sun day[1]" in ran.err
    assert "\n  sun day[1] 0.67" in ran.out
    assert len([*next(iter(JUnitXml.fromfile(str(desk / "evals.xml"))))]) == 4


@pytest.mark.parametrize(("file", "old", "new", "fault"), REFUSED)
async def test_a_faulty_file_is_refused_before_anything_runs(desk, file, old, new, fault):
    """With the place and the reason (13.7)."""
    change(desk / file, old, new)
    ran = await run(desk, "eval eval.toml")
    assert (ran.code, ran.out) == (2, "")
    assert fault in ran.err
    assert "Traceback" not in ran.err


async def test_a_file_that_is_no_report_is_no_baseline(desk):
    """Nor is one that is not there."""
    for name, fault in (("eval.toml", "is not a report of agentrail eval"), ("none.json", "cannot be read")):
        ran = await run(desk, f"eval eval.toml --baseline {name}")
        assert (ran.code, ran.out, fault in ran.err) == (2, "", True)


async def test_a_case_with_a_cassette_needs_no_model_and_a_named_model_replaces_both(desk):
    """The answers are in the file next to the eval."""
    change(desk / "eval.toml", "repeats = 2", 'model = "demo:fast"')
    ran = await run(desk, "eval eval.toml")
    assert "contains             0.000" in ran.out
    change(desk / "eval.toml", 'model = "demo:fast"', "")
    change(desk / "cases.jsonl", '"calls": ["opening_hours"]', '"cassette": "none.jsonl"')
    ran = await run(desk, "eval eval.toml")
    assert (ran.code, "there is no cassette" in ran.err, "none.jsonl" in ran.err) == (2, True, True)


async def test_no_secret_of_the_environment_is_in_what_an_eval_writes(desk):
    """A model that gives one away fails the case, and the reason shows a mark in its place."""
    change(desk / "desk.py", '"closed"}', f'"closing-time-7 {SECRET}"}}')
    line = "eval eval.toml --report report.json --junit evals.xml"
    ran = await run(desk, line, DESK_API_KEY="closing-time-7")
    assert (ran.code, "sunday[1] 0.67 contains" in ran.out) == (0, True)
    files = (desk / "report.json").read_text() + (desk / "evals.xml").read_text()
    assert "On that day: " in files
    assert SECRET not in files  # it looks like a key, and reports are committed
    assert "closing-time-7" not in f"{files}{ran.out}{ran.err}"


JUDGE = """
from agentrail.testing.models import FunctionModel, says
from agentrail.evals import Judge

def verdict(request):
    answer = str(request.messages)
    if "mumble" in answer:
        return says("hm")
    return says('{"reason": "as it seems", "value": %d}' % ("thank" in answer))

judge = Judge(rubric="Polite?", model=FunctionModel(verdict))
"""


async def test_a_judge_is_compared_with_people(desk):
    """Agreement, kappa, and each case where they differ with the judge's reason."""
    (desk / "judges.py").write_text(JUDGE)
    answers = [("Thanks, thank you.", 1), ("Go.", 0), ("Go.", 0), ("thank", 0), ("mumble", 1)]
    cases = [
        {"input": f"q{place}", "id": f"case-{place}", "metadata": {"answer": answer, "label": label}}
        for place, (answer, label) in enumerate(answers)
    ]
    (desk / "cases.jsonl").write_text("\n".join(map(json.dumps, [*cases, {"input": "unlabelled"}])))
    change(desk / "eval.toml", '"contains"', '"judges:judge"')
    ran = await run(desk, "evals calibrate eval.toml")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "judge: 3 of 4 verdicts agree with people, kappa 0.50",
        "  case-3: 1.00, people failed it: as it seems",
        "  1 answers got no verdict",
    ]
    change(desk / "eval.toml", '"judges:judge"', '"contains"')
    ran = await run(desk, "evals calibrate eval.toml")
    assert (ran.code, "has 0 judges and 5 labelled cases" in ran.err) == (2, True)


async def test_a_terminal_shows_a_table_with_a_bar(desk):
    """It is drawn again with each run, and the lines are not printed."""
    master, slave = os.openpty()
    with trio.fail_after(60):
        done = await trio.run_process(
            command("eval", "eval.toml"), cwd=desk, capture_stdout=True, stderr=slave,
            env={**os.environ, "AGENTRAIL_DATA_DIR": str(desk / "data"), "TERM": "xterm"},
        )  # fmt: skip
    drawn = os.read(master, 1 << 16).decode()
    os.close(master)
    os.close(slave)
    assert done.stdout.startswith(b"eval: 2 cases, 4 runs")
    assert all(word in drawn for word in ("scorer", "tools_called", "1.000", "━━━━"))
    assert "pass monday" not in drawn


def test_cases_of_other_reports_are_said():
    """13.7: a baseline of other cases is compared on those in common."""

    def report(**values):
        runs = [
            CaseRun(
                case=case, repeat=1, session="e", outcome="done", scores={"s": Score(float(value), "why")}
            )
            for case, value in values.items()
        ]
        return EvalReport(name="d", runs=tuple(runs))

    lines = list(report_lines(report(a=1, b=1, new=1), report(a=1, b=0, old=1), "sqlite:x"))
    assert lines[-3:] == [
        "  mended: b",
        "  not compared, as only here: new",
        "  not compared, as only in the baseline: old",
    ]
    assert list(report_lines(report(a=1), report(b=1), "x"))[-3] == "against the baseline: no case in common"
    assert RESAMPLES == 2_000


SECRET = "sk-live-abcdefghijklmnop1234"  # noqa: S105 - nobody's


async def record(place, **more):
    """Sessions of the desk in a store: one that is done, one that failed, one with an agent of its own."""
    sys.path.insert(0, str(place))
    try:
        desk = import_module("desk").desk
    finally:
        sys.path.remove(str(place))
        del sys.modules["desk"]
    scripts = {
        "down": ScriptedModel([calls(("opening_hours", {"day": "Monday"})), fails(Overloaded("busy"))])
    }
    async with agentrail.open_supervisor(store=f"sqlite:{place / 'made.db'}", scripts=scripts) as supervisor:
        done = await supervisor.start_session(desk, session_id="done", **more)
        await done.run(f"My key is {SECRET}. Are you open on Monday")
        await done.run("And on Sunday")
        failed = await supervisor.start_session(
            desk, session_id="failed", model="scripted:down", max_retries=0, **more
        )
        with pytest.raises(agentrail.CycleFailed):
            await failed.run("Are you open on Monday")
        silent = await supervisor.start_session(desk, session_id="silent", **more)
        await silent.stop()


@pytest.mark.operation("O-013")
async def test_a_case_made_of_a_session_repeats_its_calls_from_the_cassette(desk):
    """Each prompt, each call and the answer, without the model; the failure of the other one too. No secret is in a file."""
    await record(desk)
    ran = await run(desk, "evals from-sessions cases --store sqlite:made.db")
    assert (ran.code, ran.out) == (0, "cases/cases.jsonl: 2 cases\n"), ran.err
    assert "silent is left out: it has no prompt" in ran.err
    change(desk / "desk.py", "def answer(request):", "def answer(request):\n    raise AssertionError")
    change(desk / "desk.py", "tools=[opening_hours]", "tools=[opening_hours], max_retries=0")
    change(desk / "eval.toml", '"cases.jsonl"\nrepeats = 2', '"cases/cases.jsonl"')
    change(desk / "eval.toml", "{tools_called = {at_most = 1}}, {below = {turns = 2}}", '"tools_called"')
    ran = await run(desk, "eval eval.toml --report report.json")
    assert ran.code == 0, ran.err
    done, failed = decode_report((desk / "report.json").read_bytes(), "report.json").runs
    assert (done.case, done.outcome, done.value, done.turns) == ("done", "done", 1.0, 4)
    assert (failed.case, failed.outcome, failed.error) == ("failed", "failed", "overloaded: busy")
    written = b"".join(one.read_bytes() for one in (desk / "cases").rglob("*.jsonl"))
    assert (SECRET.encode() in written, b"[scrubbed]" in written) == (False, True)
    change(desk / "desk.py", "Return the opening hours", "Give the opening hours")
    ran = await run(desk, "eval eval.toml")
    assert "request 1 of 4" in ran.out
    assert "request.tools[0].description" in ran.out


async def test_only_the_chosen_sessions_become_cases_and_no_file_is_replaced(desk):
    """`--where` and `--limit` choose; a second time into the same directory is refused."""
    await record(desk)
    line = "evals from-sessions cases --store sqlite:made.db --where outcome=failed"
    ran = await run(desk, line)
    assert (ran.code, ran.out) == (0, "cases/cases.jsonl: 1 cases\n"), ran.err
    ran = await run(desk, line)
    assert (ran.code, "already exists" in ran.err) == (2, True)
    ran = await run(desk, "evals from-sessions cases --store sqlite:made.db --where outcome=done")
    assert (ran.code, "cases.jsonl already exists" in ran.err) == (2, True)
    assert [one.name for one in (desk / "cases" / "cassettes").iterdir()] == ["failed.jsonl"]
    ran = await run(desk, "evals from-sessions desk.py --store sqlite:made.db")
    assert (ran.code, "desk.py/cassettes cannot be made: Not a directory" in ran.err) == (2, True)
    ran = await run(desk, "evals from-sessions none --store sqlite:made.db --where user=eve")
    assert (ran.code, "no case was made" in ran.err, (desk / "none").exists()) == (2, True, False)
    ran = await run(desk, "evals from-sessions few --store sqlite:made.db --limit 1")
    assert ran.out == "few/cases.jsonl: 1 cases\n"
    ran = await run(desk, "evals from-sessions none --store sqlite:made.db --limit 0")
    assert (ran.code, "Must be >= 1" in ran.err) == (2, True)


async def test_sessions_of_two_tenants_with_one_id_and_with_long_ids_are_cases_of_their_own(desk):
    """The ids of cases are unique and short, or nothing could read them."""
    async with agentrail.open_supervisor(store=f"sqlite:{desk / 'made.db'}") as supervisor:
        for scope, session_id in (("a", "s"), ("b", "s"), ("", "l" * 127 + "1"), ("", "l" * 127 + "2")):
            options = {"model": ScriptedModel([says("Hi.")]), "session_id": session_id, "scope": scope}
            session = await supervisor.start_session(**options)
            await session.run("Hi")
    ran = await run(desk, "evals from-sessions cases --store sqlite:made.db")
    assert (ran.code, ran.out) == (0, "cases/cases.jsonl: 4 cases\n"), ran.err
    cases = read_cases((desk / "cases" / "cases.jsonl").read_text(), "cases.jsonl")
    assert {(desk / "cases" / one.metadata["cassette"]).is_file() for one in cases} == {True}
