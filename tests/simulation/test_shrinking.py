"""A broken life is shrunk to what its bug needs, saved, lived again and told as a page."""

import errno
import runpy
from itertools import count

import msgspec
import pytest
from attrs import evolve

from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation import sim_files
from agentrail.testing.simulation.facts import CallAsked, FaultChange
from agentrail.testing.simulation.schedule import FAIR
from agentrail.testing.simulation.shrinking import count_faults, count_prompts, shrink
from agentrail.testing.simulation.sim_files import (
    DamagedSimFile,
    differences,
    environment,
    load_sim_file,
    replay,
    save,
    write_test,
)
from agentrail.testing.simulation.stories import STORY_LINES, story
from tests.simulation.toy_life import PROMISE, lived, scenario

SEED = 2404
BROKEN = lived(SEED)
assert BROKEN.broken is not None
assert (count_faults(BROKEN.log), count_prompts(BROKEN.log)) == (9, 41)


@pytest.fixture(scope="module")
def shrunk():
    return shrink(BROKEN, lambda given: lived(SEED, given))


@pytest.mark.simulation("V-022")
def test_a_failure_of_41_prompts_and_9_faults_shrinks_to_one_of_each(shrunk):
    """What is left is the fault and the prompt that the bug needs, at round instants, within 500 lives and a minute."""
    assert (count_faults(shrunk.log), count_prompts(shrunk.log)) == (1, 1)
    assert shrunk.broken.checker == PROMISE
    assert [line.said for line in shrunk.log.lines if line.facts] == ["kill of node-1", "asks to pay"]
    instants = [value for name, value in shrunk.drawn.items() if ".at" in name]
    assert all(value in {50.25, 50.5, 51.0, 52.0} for value in instants), instants
    assert not any(name.startswith("order") for name in shrunk.drawn)
    assert (shrunk.shrunk.faults, shrunk.shrunk.prompts) == (9, 41)
    assert shrunk.shrunk.lives <= 500
    assert shrunk.shrunk.seconds < 60


@pytest.mark.simulation("V-022")
def test_the_story_of_a_shrunk_failure_is_short_and_complete(shrunk):
    """The story has the fault, the line that broke the promise, what it was shrunk from and how to play it again."""
    told = story(shrunk, saved="seed-1.sim", test="tests/simulation/test_seed_1.py").splitlines()
    assert len(told) <= 25
    assert told[0].startswith(f'seed {SEED} breaks "{PROMISE}" (scenario=scenario, nodes=3; ')
    assert "shrunk from 9 faults, 41 prompts to 1, 1; " in told[0]
    assert told[1].split()[1:] == ["FAULT", "kill", "of", "node-1"]
    assert told[2].endswith(f"asks to pay   ← BROKEN: {shrunk.broken.said}")
    assert told[-1] == (
        "play again: agentrail simulate seed-1.sim   ·   as a test: tests/simulation/test_seed_1.py (written)"
    )


def test_a_story_leaves_out_what_nobody_outside_sees_unless_all_is_asked_for():
    """Of a long life at most 60 lines are told, in order and with the broken one; `shows_all` tells every line."""
    long = evolve(BROKEN, log=BROKEN.log)
    told = story(long).splitlines()
    assert "is of no interest" not in story(long)
    assert len(told) <= STORY_LINES
    assert sum("← BROKEN" in line for line in told) == 1
    instants = [float(line.split()[0]) for line in told[1:-2]]
    assert instants == sorted(instants)
    full = story(long, shows_all=True).splitlines()
    assert len(full) == len(BROKEN.log.lines) + 2
    assert "is of no interest" in "\n".join(full)


def test_a_long_story_is_cut_to_60_lines():
    """Faults and the lines next to the broken one stay, whatever their number."""
    crowded = evolve(BROKEN)
    many = lived(SEED, leak=lambda log: [log.lines.insert(0, log.lines[0]) for _ in range(200)])
    crowded = evolve(many, broken=evolve(many.broken, line=many.broken.line + 200))
    told = story(crowded).splitlines()
    assert len(told) == STORY_LINES
    assert sum("FAULT" in line for line in told) == count_faults(BROKEN.log)
    assert told[-2] == f"   {len(crowded.log.lines) - STORY_LINES + 3} more lines with --all"


def test_a_life_that_holds_is_not_shrunk():
    """There is nothing to shrink in a life without a broken promise."""
    with pytest.raises(ValueError, match="seed calm breaks no promise"):
        shrink(lived("calm", {}))


def test_a_life_that_differs_each_time_is_not_shrunk():
    """If the same draws lead to another life, shrinking says so instead of leaving anything out."""
    numbers = count()

    def leaking(given):
        return lived(SEED, given, leak=lambda log: log.note("note", f"leak {next(numbers)}"))

    first = leaking(None)
    with pytest.raises(NotRepeatable, match="not repeatable: seed 2404 broke 'no payment is lost'") as raised:
        shrink(first, leaking)
    assert "check_deterministic" in str(raised.value)
    assert next(numbers) == 2


def test_another_broken_promise_is_another_bug():
    """A life that breaks another promise, or raises, is not taken for a smaller one."""

    def other(given):
        report = lived(SEED, given)
        if count_prompts(report.log) < 3 or count_faults(report.log) == 4:
            message = "an error of the program"
            raise RuntimeError(message)
        if report.broken is not None and count_faults(report.log) < 3:
            return evolve(report, broken=evolve(report.broken, checker="another promise"))
        return report

    smallest = shrink(BROKEN, other, max_lives=400)
    assert smallest.broken.checker == PROMISE
    assert count_faults(smallest.log) >= 3
    assert count_prompts(smallest.log) >= 3


@pytest.mark.parametrize("limit", [1, 2, 10, 40])
def test_shrinking_ends_at_its_limit_with_the_smallest_life_so_far(limit):
    """The limit of lives holds, and the result still breaks the promise."""
    smallest = shrink(BROKEN, lambda given: lived(SEED, given), max_lives=limit)
    assert smallest.shrunk.lives == limit
    assert smallest.broken.checker == PROMISE
    assert shrink(BROKEN, lambda given: lived(SEED, given), max_seconds=0).shrunk.lives == 1


def test_an_interrupt_ends_shrinking_with_the_smallest_life_so_far():
    """Ctrl-C in the middle keeps what was found."""
    lives = count(1)

    def interrupted(given):
        if next(lives) == 30:
            raise KeyboardInterrupt
        return lived(SEED, given)

    smallest = shrink(BROKEN, interrupted)
    assert smallest.shrunk.lives == 30
    assert len(smallest.drawn) < len(BROKEN.drawn)


def test_shrinking_is_repeatable(shrunk):
    """The same failure shrinks to the same life."""
    assert shrink(BROKEN, lambda given: lived(SEED, given)).drawn == shrunk.drawn


# --- files


def test_a_saved_life_comes_back_as_it_was(shrunk, tmp_path):
    """A file has the draws, the scenario, what broke and what the life depends on."""
    path = save(shrunk, tmp_path / "seed.sim")
    saved = load_sim_file(path)
    assert saved.draws == shrunk.drawn
    assert (saved.seed, saved.nodes, saved.seconds, saved.life) == (SEED, 3, 100.0, shrunk.digest)
    assert saved.scenario == "tests.simulation.toy_life:scenario"
    assert saved.broken == (PROMISE, shrunk.broken.said)
    assert saved.made_with == environment()
    assert {"commit", "python", "trio"} <= set(saved.made_with)
    assert differences(saved) in {
        (),
        (f"commit {environment()['commit'] or 'unknown'} does not name the source exactly",),
    }
    assert lived(saved.seed, saved.draws).digest == saved.life
    assert [one.name for one in tmp_path.iterdir()] == ["seed.sim"]


def test_a_flipped_byte_is_found_wherever_it_is(shrunk, tmp_path):
    """No byte of the content of a file can change without an error that names the file."""
    path = save(shrunk, tmp_path / "seed.sim")
    data = path.read_bytes()
    undetected = []
    for index in range(len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 0x01]) + data[index + 1 :])
        try:
            load_sim_file(path)
        except DamagedSimFile as error:
            assert str(path) in str(error)  # noqa: PT017 - each byte is a case of its own
        else:
            undetected.append(data[index : index + 1])
    assert undetected == []


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"null", b'{"format": 1}', b"\xff\xfe", b'{"format": true}']
)
def test_what_is_no_sim_file_is_refused(damage, tmp_path):
    """An empty, cut or foreign file is a typed error."""
    path = tmp_path / "seed.sim"
    path.write_bytes(damage)
    with pytest.raises(DamagedSimFile, match=r"seed\.sim is not a \.sim file, or is damaged"):
        load_sim_file(path)


def test_a_file_of_another_format_names_both(shrunk, tmp_path):
    """The format of a later release is named, and nothing of it is guessed."""
    path = save(shrunk, tmp_path / "seed.sim")
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | {"format": 2, "more": 1}))
    with pytest.raises(
        DamagedSimFile, match=r"has format 2 of \.sim files, expected 1; use the release that wrote it"
    ):
        load_sim_file(path)


def test_what_a_life_depended_on_and_is_no_longer_there_is_named(shrunk, tmp_path):
    """A file of another commit, Python or package says what differs."""
    saved = load_sim_file(save(shrunk, tmp_path / "seed.sim"))
    before = saved.made_with | {"commit": "0" * 40, "trio": "0.30.0", "gone": "1.0"}
    assert differences(msgspec.structs.replace(saved, made_with=before)) == (
        f"commit was {'0' * 40}, is {environment()['commit'] or 'unknown'}",
        "gone was 1.0, is unknown",
        f"trio was 0.30.0, is {environment()['trio']}",
    )


def test_a_full_disk_leaves_the_earlier_file_and_nothing_half(shrunk, tmp_path, monkeypatch):
    """If there is no room, the error says so and names the file; the earlier one stays, without remains beside it."""
    path = save(shrunk, tmp_path / "seed.sim")
    before = path.read_bytes()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agentrail.private_paths.os.fsync", full)
    for target in (path, tmp_path / "other.sim"):
        with pytest.raises(
            OSError, match="No space left on device: the file was not written; make room"
        ) as raised:
            save(BROKEN, target)
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == str(target)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["seed.sim"]


def test_a_scenario_without_a_name_is_not_saved(shrunk, tmp_path):
    """A scenario within a function could not be found again."""

    def inner(world):
        pass

    with pytest.raises(ValueError, match="define it at the top of a module"):
        save(evolve(shrunk, scenario=inner), tmp_path / "seed.sim")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def toy_run(monkeypatch):
    """Lives of the toy instead of those of a world."""

    def run(found, seed, *, given, **options):
        assert found is scenario
        assert options == {"nodes": 3, "hours": 100 / 3600, "schedule": FAIR}
        return lived(seed, given)

    monkeypatch.setattr("agentrail.testing.simulation.life.run", run)
    return run


def test_a_saved_life_is_played_again(shrunk, tmp_path, toy_run):
    """The replay finds the scenario by its name, and is the same life, without a warning."""
    report = replay(save(shrunk, tmp_path / "seed.sim"))
    assert report.digest == shrunk.digest
    assert report.broken == shrunk.broken


def test_a_replay_that_differs_is_an_error_here_and_a_warning_elsewhere(
    shrunk, tmp_path, toy_run, monkeypatch
):
    """Under the same commit another life is `NotRepeatable`; under another commit it is a warning with what differs."""
    other = evolve(shrunk, digest="another")
    path = save(other, tmp_path / "seed.sim")
    saved = load_sim_file(path).made_with | {"commit": "e" * 40}
    monkeypatch.setattr(sim_files, "environment", lambda: saved)
    path = save(other, tmp_path / "seed.sim")
    with pytest.raises(NotRepeatable, match="plays another life than the saved one: nothing else differs"):
        replay(path)
    monkeypatch.setattr(sim_files, "environment", lambda: saved | {"commit": "e" * 40 + "-dirty"})
    path = save(other, tmp_path / "seed.sim")
    with pytest.warns(NotRepeatable, match="-dirty does not name the source exactly"):
        replay(path)
    monkeypatch.setattr(sim_files, "environment", lambda: saved | {"commit": "f" * 40})
    with pytest.warns(NotRepeatable, match=f"another life than the saved one: commit was .*, is {'f' * 40}"):
        assert replay(path).broken == shrunk.broken


@pytest.mark.simulation("V-022")
def test_the_written_test_fails_before_the_mending_and_passes_after_it(
    shrunk, tmp_path, toy_run, monkeypatch
):
    """The test that is written for a failure fails while the bug is there, with the story, and passes once it is mended."""
    saved = save(shrunk, tmp_path / "saved.sim")
    test = write_test(shrunk, saved, tmp_path / "tests")
    assert sorted(one.name for one in test.parent.iterdir()) == ["saved.sim", f"test_seed_{SEED}.py"]
    written = runpy.run_path(str(test))[f"test_seed_{SEED}"]
    with pytest.raises(AssertionError, match=f'seed {SEED} breaks "{PROMISE}"'):
        written()
    assert [mark.args for mark in written.pytestmark] == [("ignore::agentrail.testing.seeded.NotRepeatable",)]
    monkeypatch.setattr(
        "agentrail.testing.simulation.life.run",
        lambda *args, **options: evolve(toy_run(*args, **options), broken=None, digest="mended"),
    )
    monkeypatch.setattr(sim_files, "environment", lambda: {"commit": "the mending"})
    with pytest.warns(NotRepeatable, match="is the mending"):
        written()


def test_faults_and_prompts_are_counted_by_their_facts():
    """An ended fault and an answer are no further ones."""
    log = lived("calm", {}).log
    for facts in (
        FaultChange("node", "kill"),
        FaultChange("node", "kill", is_over=True),
        CallAsked(id="1", request="steer"),
    ):
        log.note("note", "one", facts=facts)
    assert (count_faults(log), count_prompts(log)) == (1, 0)
