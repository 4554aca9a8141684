"""The coding agent is tested without a model and without a person."""

import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from agentrail import open_supervisor
from agentrail.blueprints.configuration import read_configuration
from agentrail.events import PluginEvent, SubagentEvent, ToolBlocked, ToolExecutionEnd
from offline_coder import Offline

import coding

README = Path(__file__).parent.parent / "README.md"
LOOKS = ["list_dir", "read_file", "read_file"]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """Nothing of who runs the tests: neither a home, nor settings of git, nor a repository around."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)


class Terminal(io.StringIO):
    """A keyboard and a screen: what is read is shown, as a terminal does."""

    def readline(self, *given):
        """Give the next line that is typed, and show it."""
        line = super().readline(*given)
        sys.stdout.write(line)
        return line


def git(directory, *words):
    """What git says there."""
    done = subprocess.run(["git", "-C", directory, *words], capture_output=True, text=True, check=True)  # noqa: S607 - on the path
    return done.stdout


def blocks():
    """The runs that the page shows: command, and what is on the screen then."""
    shown = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    runs = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(shown), re.MULTILINE)
    assert len(runs) == 4
    return runs


def typed_in(screen):
    """What a person typed there: behind a prompt, and behind a question."""
    found = re.findall(r"^(?:> |approve\? |  write_file \S+\? |  shell .+\? )(.+)$", screen, re.MULTILINE)
    return "".join(f"{line}\n" for line in found)


@needs_git
def test_the_page_shows_what_happens(monkeypatch, capsys, tmp_path):
    """Each of its runs, one after the other, in one directory."""
    monkeypatch.chdir(tmp_path)
    for command, screen in blocks():
        program, *words = shlex.split(command)
        if program == "git":
            assert git(tmp_path, *words) == screen
            continue
        assert words.pop(0) == "coding.py"
        monkeypatch.setattr("sys.stdin", Terminal(typed_in(screen)))
        coding.main(words)
        assert capsys.readouterr().out == screen


@pytest.fixture
def shop(tmp_path):
    """A repository, with a place to push to that would take it."""
    directory = tmp_path / "shop"
    coding.make_repository(directory)
    subprocess.run(["git", "init", "-q", "--bare", directory / "elsewhere"], check=True)  # noqa: S607 - on the path
    git(directory, "remote", "add", "origin", str(directory / "elsewhere"))
    return directory


@pytest.fixture
async def session(shop):
    """A session of the coder that is to plan first."""
    async with open_supervisor(shell_fallback="unconfined") as supervisor:
        session = await supervisor.start_session(coding.CODER, model=Offline(), working_dir=str(shop))
        await coding.plan_first(session)
        yield session


async def heard_by(session):
    """All that the session and those below it published, from the beginning; it ends with that."""
    async with session.subscribe(after=0) as events:
        await session.stop()
        found = [event async for event in events]
    return [event.event if isinstance(event, SubagentEvent) else event for event in found]


def ran(events):
    """The tools that ran to a good end."""
    return [
        event.name for event in events if isinstance(event, ToolExecutionEnd) and not event.result.is_error
    ]


@needs_git
async def test_nothing_with_an_effect_runs_before_the_plan_is_approved(session, shop):
    """Until then it looks; what a person sees at the question is a repository as it was."""
    seen = []

    def confirm(asked):
        seen.append((asked, git(shop, "diff"), git(shop, "log", "--format=%s")))
        return "yes"

    assert await coding.work(session, "mend it", confirm) == "The test passes, and it is committed."
    assert [(diff, log) for _, diff, log in seen] == [("", "Add prices up\n")]
    assert "3. Commit it as" in seen[0][0]
    events = await heard_by(session)
    (approved,) = [
        number
        for number, event in enumerate(events)
        if isinstance(event, PluginEvent) and event.name == "plan_approved"
    ]
    before, after = ran(events[:approved]), ran(events[approved:])
    assert [name for name in before if name != "exit_plan"] == LOOKS
    assert [name for name in after if name != "exit_plan"] == ["edit_file", "shell", "shell"]


@needs_git
async def test_the_commit_stands_in_git_afterwards(session, shop):
    """With the title of the plan that was approved, and with nothing left over."""
    answers = iter(['call it "Sum it"', "yes"])
    await coding.work(session, "mend it", lambda asked: next(answers))
    assert git(shop, "log", "-1", "--format=%s by %an", "--", "total.sh") == "Sum it by Ada\n"
    assert git(shop, "diff", "HEAD") == ""
    assert "sum=$((sum + price))" in (shop / "total.sh").read_text()


@needs_git
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("no", "A person said no; nothing was done."),
        ("", "A person said no; nothing was done."),
        ("I do it myself", "Then I leave it as it is."),
    ],
)
async def test_a_rejected_plan_changes_nothing(session, shop, words, said):
    """Neither then nor by the next task: the mode stays."""
    assert await coding.work(session, "mend it", lambda asked: words) == said
    assert await coding.work(session, "write notes.txt", lambda asked: "yes") == "That was refused."
    assert await coding.work(session, "review it", lambda asked: "yes")
    assert git(shop, "log", "--format=%s") == "Add prices up\n"
    assert git(shop, "diff", "HEAD") == ""
    assert not (shop / "notes.txt").exists()
    assert set(ran(await heard_by(session))) <= {*LOOKS, "task"}


@needs_git
@pytest.mark.parametrize("line", ["git push origin HEAD", "git -C . push origin HEAD"])
async def test_the_denied_push_never_runs(session, shop, line):
    """Whatever is approved, and however it is written: nothing comes where it would have gone."""
    await coding.work(session, "mend it", lambda asked: "yes")
    assert await coding.work(session, f"run `{line}`", lambda asked: "yes") == "That was refused."
    assert git(shop / "elsewhere", "for-each-ref") == ""
    blocked = [event for event in await heard_by(session) if isinstance(event, ToolBlocked)]
    assert blocked[-1].by == "Permissions"
    assert "shell(git push *)" in blocked[-1].reason


@needs_git
async def test_a_push_inside_of_a_shell_is_asked_about(session, shop):
    """No rule reads what `sh` runs. A `deny` rule for `shell` makes it a question, and a no keeps it from running."""
    await coding.work(session, "mend it", lambda asked: "yes")
    asked, line = [], "sh -c 'git push origin HEAD'"
    said = await coding.work(session, f"run `{line}`", lambda one: asked.append(one) or "no")
    assert (said, asked) == ("A person said no; nothing was done.", [f"  shell {line}? "])
    assert git(shop / "elsewhere", "for-each-ref") == ""


@needs_git
def test_that_place_would_have_taken_it(shop):
    """Without the agent the push works: the test above is not blind."""
    git(shop, "push", "-q", "origin", "HEAD")
    assert git(shop / "elsewhere", "for-each-ref") != ""


@needs_git
async def test_what_lies_outside_is_asked_about_and_stays_outside(session, shop):
    """A person may approve it; the sandbox does not write there."""
    await coding.work(session, "mend it", lambda asked: "yes")
    asked = []
    assert await coding.work(session, "write ../notes.txt", lambda one: asked.append(one) or "yes")
    assert asked == ["  write_file ../notes.txt? "]
    assert not (shop.parent / "notes.txt").exists()


@needs_git
async def test_what_a_rule_asks_about_waits_for_a_person(session, shop):
    """`git reset` runs by a yes, and not by a no."""
    await coding.work(session, "mend it", lambda asked: "yes")
    asked = []
    for answer, log in (("no", "Add all prices up\nAdd prices up\n"), ("yes", "Add prices up\n")):
        await coding.work(
            session, "run `git reset -q HEAD~1`", lambda one, say=answer: asked.append(one) or say
        )
        assert git(shop, "log", "--format=%s") == log
    assert asked == ["  shell git reset -q HEAD~1? "] * 2


@needs_git
async def test_plan_mode_can_be_set_again(session, shop):
    """And then no edit runs, which ran before."""
    await coding.work(session, "mend it", lambda asked: "yes")
    assert await coding.work(session, "write a.txt", lambda asked: "no") != "That was refused."
    assert (shop / "a.txt").exists()
    await coding.plan_first(session)
    assert await coding.work(session, "write b.txt", lambda asked: "yes") == "That was refused."
    assert not (shop / "b.txt").exists()


@needs_git
async def test_the_reviewer_may_do_less_than_the_coder(session, shop):
    """Of three commands one runs; what it allows itself gives it nothing."""
    await coding.work(session, "mend it", lambda asked: "yes")
    before = git(shop, "rev-parse", "HEAD")
    said = await coding.work(session, "review it", lambda asked: "yes")
    assert said == "The commit does one thing, and has a test."
    assert git(shop, "rev-parse", "HEAD") == before
    assert git(shop / "elsewhere", "for-each-ref") == ""


@pytest.mark.parametrize("trusted", [False, True])
def test_the_file_of_the_reviewer_says_the_same_and_only_narrows(tmp_path, trusted):
    """Until it is trusted its mode counts, and nothing of its `allow`."""
    (text,) = re.findall(r"```text\n(.*?)```", README.read_text(), re.DOTALL)
    folder = tmp_path / "shop" / ".agentrail" / "agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text(text)
    read = read_configuration({"HOME": str(tmp_path)}, cwd=tmp_path / "shop", trust_project=trusted)
    assert read.faults == ()
    assert bool(read.not_granted) is not trusted
    policy = read.settings.agents["reviewer"].policy
    assert policy.mode.value == coding.REVIEWER.permissions["mode"]
    allowed = [rule.value for rule in policy.allow]
    assert allowed == (list(coding.REVIEWER.permissions["allow"]) if trusted else [])


def said_at_the_end(arguments):
    """With what words the program ends."""
    with pytest.raises(SystemExit) as ended:
        coding.main(arguments)
    return ended.value.code


@needs_git
def test_wrong_arguments_end_with_a_clear_message(tmp_path, capsys):
    """And what lies there stays as it is."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("mine")
    assert "is not empty and not a git repository; name another" in said_at_the_end([str(tmp_path / "full")])
    assert [one.name for one in (tmp_path / "full").iterdir()] == ["diary.txt"]
    assert "diary.txt" in said_at_the_end([str(tmp_path / "full" / "diary.txt")])
    assert "expected provider:name" in said_at_the_end([str(tmp_path / "a"), "--model", "nonsense"])
    assert said_at_the_end(["--modle", "x"]) == 2
    assert "--modle" in capsys.readouterr().err


def test_without_git_it_says_what_to_do(monkeypatch, tmp_path, capsys):
    """Before anything is made."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said_at_the_end([str(tmp_path / "shop")]) == 2
    assert "git is not installed" in capsys.readouterr().err
    assert not (tmp_path / "shop").exists()
