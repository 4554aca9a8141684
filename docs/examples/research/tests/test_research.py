"""The research is tested without a model: what the page shows, what a citation is, and how it ends."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import offline_model
import pytest
import trio
from agentrail import AgentEnd, open_supervisor
from agentrail.events import CitationUnknown, PlanCompleted
from agentrail.testing.models import FunctionModel, says

import research

HERE = Path(__file__).parent.parent
README = HERE / "README.md"
QUESTION = "Should the library get a heat pump: cost, comfort, noise"
CITED = re.compile(r"^(?P<said>.+) \[(?P<path>[^\]#]+)#L(?P<first>\d+)-L(?P<last>\d+)\]$", re.MULTILINE)


def is_researcher(request):
    """Whether it is one of the three who look that asks."""
    return request.system.startswith("You look")


def in_directory(directory):
    """The names there."""
    return sorted(one.name for one in directory.iterdir())


@pytest.fixture
def start(tmp_path):
    """Open a session of the leader, on a model."""

    async def begin(nursery, model):
        research.read_papers(research.PAPERS, str(tmp_path))

        async def serve(task_status=trio.TASK_STATUS_IGNORED):
            async with open_supervisor(knowledge=f"sqlite:{tmp_path}") as supervisor:
                task_status.started(await supervisor.start_session(research.LEADER, model=model))
                await trio.sleep_forever()

        return await nursery.start(serve)

    return begin


# --- the page


def test_the_page_shows_what_happens(monkeypatch, capsys, tmp_path):
    """Each of its commands, one after the other, in one directory."""
    monkeypatch.chdir(tmp_path)
    shown = "".join(re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
    runs = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)
    assert [command.split()[0] for command, _ in runs] == ["python", "cat", "python", "cat"]
    for command, screen in runs:
        program, *arguments = shlex.split(command)
        if program == "python":
            assert arguments[0] == "research.py"
            research.main(arguments[1:])
        else:
            print(Path(arguments[0]).read_text(encoding="utf-8"), end="")
        assert capsys.readouterr().out == screen


def test_the_page_quotes_the_program():
    """Word for word."""
    quoted = re.findall(r"```py\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    program = (HERE / "research.py").read_text(encoding="utf-8")
    assert quoted
    assert [one for one in quoted if one not in program] == []


# --- what it finds


async def test_each_citation_is_a_place_in_a_document(nursery, start):
    """The lines that are named say what the report says, and each part of the question has one."""
    report = await research.research(
        await start(nursery, offline_model.Offline()), QUESTION, lambda line: None
    )
    cited = list(CITED.finditer(report))
    assert len(cited) == len(re.findall(r"\[[^\]\n]+#", report)) == 3
    for one in cited:
        lines = (research.PAPERS / one["path"]).read_text(encoding="utf-8").splitlines()
        assert one["said"] in lines[int(one["first"]) - 1 : int(one["last"])]


async def test_the_plan_ends_completed(nursery, start):
    """Each of its steps, and it says so before the research is over."""
    session = await start(nursery, offline_model.Offline())
    await research.research(session, QUESTION, lambda line: None)
    async with session.subscribe(after=0) as events:
        heard = []
        async for event in events:
            heard.append(event)
            if isinstance(event, AgentEnd):
                break
    (ended,) = [event.plan for event in heard if isinstance(event, PlanCompleted)]
    assert [(step.content, step.status) for step in ended.steps] == [
        (step, "completed") for step in offline_model.STEPS
    ]


async def test_three_look_at_the_same_time(nursery, start):
    """None of them is answered before all have asked."""
    asking, all_ask = set(), trio.Event()

    async def answer(request):
        if is_researcher(request) and not all_ask.is_set():
            asking.add(request.messages[0].content[0].text.partition(":")[0])
            if len(asking) == 3:
                all_ask.set()
            with trio.fail_after(5):
                await all_ask.wait()
        return offline_model.choose(request)

    session = await start(nursery, FunctionModel(answer))
    report = await research.research(session, QUESTION, lambda line: None)
    assert asking == {"cost", "comfort", "noise"}
    assert len(CITED.findall(report)) == 3


async def test_each_has_the_tools_of_its_work_only(nursery, start):
    """Who looks cannot start others; who leads reads passages, and searches through the others."""
    model = offline_model.Offline()
    await research.research(await start(nursery, model), QUESTION, lambda line: None)
    offered = {is_researcher(one): {tool.name for tool in one.tools} for one in model.requests}
    assert offered[True] == {"kb_search"}
    assert offered[False] == {"kb_read", "spawn_agent", "send_input", "wait_agents", "close_agent"}


# --- what is made up


async def test_a_citation_that_is_made_up_is_told_and_is_not_in_the_report(nursery, start):
    """It is asked for again, once, and what was read stays."""
    told = []
    session = await start(nursery, offline_model.Offline())
    async with session.subscribe(kinds=[CitationUnknown]) as events:
        report = await research.research(
            session, "Should the library get a heat pump: cost, fame", told.append
        )
        assert (await anext(events)).citations == ("fame.md#L1-L4",)
    assert told.count("made up: fame.md#L1-L4") == 1
    assert "fame.md" not in report
    assert "## Fame\n\nNothing is written about it." in report
    assert len(CITED.findall(report)) == 1


STILL = "no report is written: asked again, it still cites what no passage holds, "


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("- [x] guess\n\nIt is so. [heat-pumps.md#L1-L3]", f"{STILL}heat-pumps.md#L1-L3"),
        ("- [x] guess\n\nIt is so. [nowhere.md#p3]", f"{STILL}nowhere.md#p3"),
        ("", "the cycle failed (protocol_error): the model sent an empty response"),
    ],
)
def test_what_stays_made_up_or_empty_is_no_report(answer, why, monkeypatch, tmp_path):
    """A model that never reads, and one that says nothing: asked again, and then there is no file, but a reason."""
    monkeypatch.chdir(tmp_path)
    stubborn = FunctionModel(lambda request: says(answer))
    monkeypatch.setattr(research, "Offline", lambda: stubborn)
    with pytest.raises(SystemExit) as ended:
        research.main([QUESTION])
    assert str(ended.value.code).startswith(f"research.py: {why}")
    assert len(stubborn.requests) == 2
    assert in_directory(tmp_path) == []


# --- what is wrong


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: question"),
        (["  "], "the question is empty; name a topic"),
        ([QUESTION, "--papers", "nowhere"], "--papers nowhere: expected a directory with Markdown files"),
        ([QUESTION, "--report", "nowhere/report.md"], "--report nowhere/report.md: expected a file"),
        ([QUESTION, "--report", "."], "--report .: expected a file"),
        ([QUESTION, "--modell", "x", "--attempts"], "unrecognized arguments"),
    ],
)
def test_a_wrong_argument_is_said_before_anything_begins(arguments, said, monkeypatch, capsys, tmp_path):
    """With what was expected, and what came."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        research.main(arguments)
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    assert said in shown.err
    assert in_directory(tmp_path) == []


def test_a_model_that_there_is_not_is_said(monkeypatch, tmp_path):
    """With those that there are."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        research.main([QUESTION, "--model", "nonsense"])
    assert str(ended.value.code).startswith("research.py: 'nonsense' is not a model string")
    assert in_directory(tmp_path) == []


def test_a_paper_that_cannot_be_read_is_said_and_the_others_are_read(monkeypatch, capsys, tmp_path):
    """It has a line of its own, with the reason."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "b.md").write_text("# Rooms\n\nThe cost is 3 EUR.\n", encoding="utf-8")
    research.main(["What is it: cost", "--papers", "."])
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"a\.md: .*UTF-8.*", first)
    assert second == "b.md: indexed"
    assert "The cost is 3 EUR. [b.md#L3-L3]" in Path("report.md").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_shown(capsys, tmp_path):
    """It was paid for."""
    outcome = research.keep("# It is so\n", tmp_path)
    assert str(outcome).startswith(f"research.py: {tmp_path} cannot be written, the report stands above: ")
    assert capsys.readouterr().out == "# It is so\n\n"


INTERRUPTED = """
import os, signal, sys, tempfile

import offline_model, research, trio
from agentrail.testing.models import FunctionModel

async def answer(request):
    if request.system.startswith("You look"):
        print(f"looks, {len(os.listdir(tempfile.gettempdir()))} index", flush=True)
        if len(model.requests) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()
    return offline_model.choose(request)

model = FunctionModel(answer)
research.Offline = lambda: model
research.main(sys.argv[1:])
"""


def test_ctrl_c_leaves_nothing(tmp_path):
    """While three are at work, and in the midst of one: no report, no index, no traceback, and the code that shells expect."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, QUESTION],
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(scratch)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.count("looks, 1 index\n") == 3
    assert "is written" not in done.stdout
    assert in_directory(scratch) == []
    assert in_directory(tmp_path) == ["scratch"]
