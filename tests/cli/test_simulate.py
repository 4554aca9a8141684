"""`agentrail simulate`: exit codes, stories, and what bad input hears. The worlds themselves have tests of their own."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen

from agentrail import outside
from agentrail.cli import simulate_command
from agentrail.cli.command_tree import app
from agentrail.testing.simulation import lives
from tests.cli.rig import command, open_process, wait_until
from tests.forked import environment
from tests.thinned import each

COUNTING = """
import threading
import time
import agentrail
from agentrail import plugins as p
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.simulation.faults import MODEL_TROUBLE
from agentrail.testing.simulation.people import people
from agentrail.testing.simulation.simulated_tests import simulation

payments = []

@p.plugin(init=int, hooks=(p.BeforeTool,))
def hidden_counter(event, count, ctx):
    payments.append(event)
    return p.BlockTool("enough", count) if len(payments) % 2 else p.Continue(count)

@agentrail.tool
async def clock() -> str:
    \"\"\"Read the clock.\"\"\"
    return f"{time.time_ns()}"

def honest(world):
    world.profile("desk", model=FunctionModel(lambda request: says("Hello.")))
    people(world, 1, "desk", pause=(1, 2))

def with_a_clock(world):
    answer = lambda request: says("Done.") if len(request.messages) > 1 else calls(("clock", {}))
    world.profile("desk", model=FunctionModel(answer), tools=[clock])
    people(world, 1, "desk", pause=(1, 2))

@simulation(nodes=2, hours=0.01, seeds=1)
def small(world):
    honest(world)

def careful(world):
    honest(world)

    @world.always
    def nobody_asks():
        assert not any(line.kind == "person" for line in world.log.lines), "a person asked"

def varied(world):
    honest(world)
    world.faults()

    @world.finally_
    def shows():
        rows = world.store.rows()
        store = "sqlite" if world.disk(0) else "postgres" if rows else "memory"
        others = ["and trouble"] if world.allows(MODEL_TROUBLE) else []
        raise AssertionError(" ".join([store, *sorted(one.action for one in world.allowed_faults), *others]))

def talkative(world):
    print("this is no life")
    honest(world)

def wrong(world):
    {}["no such key"]

def exits(world):
    raise SystemExit(0)

def exits_later(world):
    honest(world)
    world.always(lambda: exits(world))

def uses_a_thread(world):
    threading.Thread(target=int).start()

by_lambda = lambda world: careful(world)

def begins(world):
    honest(world)
    open("begun", "w").close()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a module of scenarios that is installed nowhere."""
    (tmp_path / "my_world.py").write_text(COUNTING)
    (tmp_path / "raising_world.py").write_text("1 / 0")
    (tmp_path / "exiting_world.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@frozen
class Ran:
    code: int
    out: str
    err: str


def run_line(line: str, capfd: pytest.CaptureFixture[str]) -> Ran:
    """Run the command in this process, with the words of a line."""
    code = app(line.split(), result_action="return_value")
    told = capfd.readouterr()
    return Ran(code, told.out, told.err)


def test_a_life_in_which_all_holds_is_measured(folder, capfd):
    """One seed, and several in two processes; JSON has a line for each life."""
    usual = "--scenario my_world:honest --nodes 1 --hours 0.003"
    ran = run_line(f"simulate --seed 1 {usual}", capfd)
    assert (ran.code, ran.err) == (0, "")
    assert "seed 1 keeps all promises: 1 lives" in ran.out
    ran = run_line(f"simulate --seeds 1-2 --census {usual}", capfd)
    assert "situations were met by no life, and have no reason for that:\n  " in ran.out
    ran = run_line(f"simulate --seeds 1-3 --jobs 2 --json --census {usual}", capfd)
    *rows, census = [json.loads(line) for line in ran.out.splitlines()]
    assert "close reason: parked" in census["unmet"]
    assert (ran.code, sorted((row["seed"], row["outcome"]) for row in rows)) == (
        0,
        [(1, "held"), (2, "held"), (3, "held")],
    )
    assert all(row["steps"] > 100 for row in rows)


def test_a_simulated_test_has_its_own_nodes_and_hours(folder, capfd):
    """Also with other faults. `--nodes` and a store that nodes cannot share replace its number."""
    for options, node_hours in (
        ("", 0.02),
        ("--faults none", 0.02),
        ("--nodes 1", 0.01),
        ("--store sqlite", 0.01),
    ):
        ran = run_line(f"simulate --seed 1 --json --scenario my_world:small {options}", capfd)
        assert (ran.code, ran.err) == (0, "")
        # And the seconds until the life is at rest.
        assert json.loads(ran.out)["node_hours"] == pytest.approx(node_hours, rel=0.4)


@pytest.mark.check  # processes
def test_what_a_scenario_prints_is_no_life(folder, capfd):
    """It goes to stderr, also from the two processes that compare a seed."""
    ran = run_line("simulate --seeds 0-1 --json --scenario my_world:talkative --nodes 1 --hours 0.003", capfd)
    assert (ran.code, ran.err) == (0, 2 * "this is no life\n")
    assert [json.loads(line)["outcome"] for line in ran.out.splitlines()] == ["held", "held"]


def test_a_broken_life_is_told_saved_and_played_again(folder, capfd):
    """The invariant of a scenario that does not hold: a story, exit code 1, and a file that tells it once more."""
    ran = run_line("simulate --seed 5 --scenario my_world:careful --nodes 1 --hours 0.003 --save kept", capfd)
    assert ran.code == 1, ran
    assert "← BROKEN: a person asked" in ran.out
    file, test = sorted((folder / "kept").iterdir())
    assert test.name == "test_seed_5.py"
    ran = run_line(f"simulate {file}", capfd)
    assert ran.code == 1, ran
    assert "← BROKEN: a person asked" in ran.out
    file.write_bytes(file.read_bytes().replace(b"careful", b"honestly"))
    ran = run_line(f"simulate {file}", capfd)
    assert (ran.code, ran.out) == (2, "")
    assert "is damaged" in ran.err


def test_an_error_of_a_scenario_is_one_sentence(folder, capfd):
    """Also from many seeds. A pipe and a nest of brackets are no `.sim` files, and a broken scenario of one is its error."""
    usual = "--nodes 1 --hours 0.003 --shrink 0"
    ran = run_line(f"simulate --seeds 0-1 --scenario my_world:wrong {usual}", capfd)
    assert ran.code == 2, ran
    assert len(ran.err.splitlines()) == 1
    assert "seed 0 ends with an error of the scenario or of a node: KeyError" in ran.err
    for name in ("exits", "exits_later"):  # with 0, which would be a success
        ran = run_line(f"simulate --seeds 0-1 --scenario my_world:{name} {usual}", capfd)
        assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran
        assert "seed 0 ends with an error of the scenario or of a node: SystemExit: 0" in ran.err
    ran = run_line(f"simulate --seeds 0-1 --scenario my_world:uses_a_thread {usual}", capfd)
    assert (ran.code, ran.err) == (3, "")
    assert "seed 0 is not repeatable: a life must not start a thread" in ran.out
    ran = run_line(f"simulate --seed 1 --all --scenario my_world:by_lambda {usual}", capfd)
    assert ran.code == 1, ran
    assert "← BROKEN: a person asked" in ran.out
    assert "with --all" not in ran.out
    assert "my_world:by_lambda" in Path("seed-1.sim").read_text()
    os.mkfifo("pipe.sim")
    Path("deep.sim").write_text("[" * 100_000)
    for file, said in (("pipe", "is not a file"), ("deep", "is not a .sim file, or is damaged")):
        ran = run_line(f"simulate {file}.sim", capfd)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


@each(
    ("options", "said"),
    [
        ("--store postgres --faults none", "postgres"),
        ("--store sqlite --faults one_way_cut,people", "sqlite one_way_cut whims"),
        (
            "--store memory --faults kill,people,disk",
            "memory failed_sync full_disk slow_disk whims",
        ),
    ],
)
def test_a_store_and_faults_can_be_chosen(folder, capfd, options, said):
    """The file of a broken life keeps both, so that it plays again. A process in whose memory sessions are does not end."""
    ran = run_line(f"simulate --seed 5 --scenario my_world:varied --hours 0.003 --shrink 0 {options}", capfd)
    assert ran.code == 1, ran
    assert f"← BROKEN: {said}\n" in ran.out
    _, _, again = ran.out.rpartition("play again: agentrail simulate ")
    ran = run_line(f"simulate {again.split()[0]}", capfd)
    assert ran.code == 1, ran
    assert f"← BROKEN: {said}\n" in ran.out


@pytest.mark.simulation("V-029")
@pytest.mark.check
def test_a_plugin_with_a_hidden_counter_is_found_with_its_story(folder, capfd):
    """It decides differently when its session is folded again."""
    ran = run_line("simulate --against my_world:hidden_counter --seeds 1-20 --shrink 5 --save kept", capfd)
    assert ran.code == 1, ran
    assert 'breaks "fold equals life"' in ran.out


@pytest.mark.simulation("V-004")
@pytest.mark.check
def test_a_tool_that_reads_a_clock_is_not_repeatable(folder, capfd):
    """The first line that differs is shown with the code; nothing is shrunk, and the exit code is 3."""
    ran = run_line("simulate --seed 0 --scenario my_world:with_a_clock --nodes 1 --hours 0.003", capfd)
    assert ran.code == 3, ran
    assert "seed 0 is not repeatable" in ran.out
    assert not list(folder.glob("*.sim"))


@each(
    ("line", "said"),
    [
        ("--seeds 9-1", "expected a first seed up to a last one"),
        ("--seeds all", "expected numbers, such as 0-199"),
        ("--jobs 0", "expected a first seed up to a last one, and 1 or more"),
        ("--until 25:00", "expected a time of day"),
        ("--scenario nowhere", "world 'nowhere' is unknown"),
        ("--scenario my_world:missing", "'my_world' has no 'missing'"),
        ("--scenario raising_world:any", "division by zero"),
        ("--scenario no_such_module:any", "no_such_module"),
        ("--scenario exiting_world:any", "exiting_world:any' cannot be imported: SystemExit"),
        ("--against exiting_world:any", "exiting_world:any' cannot be imported: SystemExit"),
        ("--seed 1 --nodes 0", "expected 1 to 50 nodes"),
        ("--seed 1 --nodes 1000", "expected 1 to 50 nodes"),
        ("--seed 1 --hours 0", "expected 1 to 50 nodes and at most 24 hours"),
        ("--seed 1 --shrink inf", "--shrink is inf: expected finite seconds >= 0"),
        ("--scenario my_world:payments", "'my_world' has no 'payments' that can be called"),
        (
            "--seed 1 --nodes 1 --hours 0.003 --scenario my_world:wrong",
            "a node: KeyError: 'no such key' (my_world.py",
        ),
        ("--store oracle", "store 'oracle' is unknown: expected one of postgres, sqlite, memory"),
        ("--store sqlite --nodes 3", "nodes share sessions only with --store postgres"),
        ("--store memory --world drain", "world 'drain' restarts its nodes"),
        ("--faults network,flood", "fault 'flood' is unknown"),
        ("--store sqlite --world nowhere", "world 'nowhere' is unknown"),
        ("no_such_file.sim", "no_such_file.sim cannot be read: No such file or directory."),
    ],
)
def test_wrong_usage_is_said_and_nothing_lives(folder, capfd, line, said):
    """Exit code 2, and one sentence."""
    ran = run_line(f"simulate {line}", capfd)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_faults_are_listed(folder, capfd):
    """With the family, the name and the sentence of each."""
    ran = run_line("simulate --list-faults", capfd)
    assert ran.code == 0
    assert "network  one_way_cut" in ran.out


@pytest.mark.parametrize("line", ["--list-faults", "7.sim"])
def test_without_the_extras_it_says_how_to_install_them(folder, line):
    """One sentence, and no report of a bug, for whatever was asked."""
    code = "import sys; sys.modules['starlette'] = None; from agentrail.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "simulate", *line.split()]
    ended = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.match(r"agentrail: simulate needs starlette\S*: pip install ", ended.stderr)


def test_the_next_time_of_day_is_today_or_tomorrow():
    """It is at most a day away, and never past."""
    assert 0 < simulate_command.time_of("06:00") - outside.wall() <= 25 * 3600


def test_no_life_begins_after_the_time_of_until(folder, capfd):
    """Without it, the seeds of a range end."""
    work = {"name": "my_world:honest", "nodes": 1, "hours": 0.003, "first": 1, "count": None, "until": 0.0}
    lives.main(json.dumps(work))
    assert capfd.readouterr().out == ""
    lives.main(json.dumps(work | {"count": 1, "until": outside.wall() + 3600}))
    assert json.loads(capfd.readouterr().out)["outcome"] == "held"


def test_a_process_of_lives_whose_reader_has_gone_ends_in_silence(folder):
    """The command ends with the first broken life, and does not wait for the others."""
    work = {"name": "my_world:honest", "nodes": 1, "hours": 0.003, "first": 1, "count": 2}
    command = [sys.executable, "-m", "agentrail.testing.simulation.lives", json.dumps(work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.check
@pytest.mark.parametrize(("path", "scenario"), [(None, "single"), (".", "my_world:honest")])
def test_nothing_of_the_directory_runs_but_what_is_named(folder, path, scenario):
    """Neither in the processes of the lives, nor in those that compare them. They had found a `msgspec.py` there before the library."""
    for name in ("msgspec", "trio", "json", "typing"):
        (folder / f"{name}.py").write_text(
            "from pathlib import Path\nPath('ran').touch()\nraise SystemExit(3)\n"
        )
    line = command(
        "simulate", "--seeds", "100-100", "--scenario", scenario, "--nodes", "1", "--hours", "0.003"
    )
    variables = {} if path is None else {"PYTHONPATH": path}
    ran = subprocess.run(line, cwd=folder, env=environment(**variables), capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b""), ran.stdout
    assert not (folder / "ran").exists()


@pytest.mark.check
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_ctrl_c_tells_what_was_lived(folder, sent):
    """The processes of the lives save them so far, and end with the command, with exit code 130."""
    line = (
        "simulate",
        "--seeds",
        "1-100000",
        "--jobs",
        "2",
        "--json",
        "--scenario",
        "my_world:begins",
        "--nodes",
        "1",
    )
    async with open_process(*line, cwd=folder) as process:
        await wait_until((folder / "begun").exists)
        process.send_signal(sent)
        told = b"".join([piece async for piece in process.stdout])
        assert await process.wait() == 130
    assert b'"outcome":"interrupted"' in told
    assert list(folder.glob("seed-*.sim"))
