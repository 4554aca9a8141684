"""Each test is collected and run, however many workers there are, and one that hangs is shown. Which tests share a process is checked by `make lint-repository`."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, strategies as st

from tests.spread import COLLECTED_BY_ALL, collected_by_one, file_of, folder_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root_conftest(pytestconfig):
    """The root `conftest.py`, which says who runs what."""
    plugins = pytestconfig.pluginmanager.get_plugins()
    (found,) = [one for one in plugins if getattr(one, "__file__", None) == str(ROOT / "conftest.py")]
    return found


FILES = [f"tests/{folder}/test_{name}.py" for folder in ("core", "otp", *COLLECTED_BY_ALL) for name in "abcd"]


@given(
    sizes=st.dictionaries(st.sampled_from(FILES), st.integers(0, 30_000)),
    shared=st.sets(st.sampled_from(FILES)),
    workers=st.integers(1, 4),
)
@example(sizes=dict.fromkeys(FILES, 1), shared=set(), workers=2)
def test_each_file_is_collected_by_one_worker_or_by_all(sizes, shared, workers):
    """By all what is run together and what takes long, by one the rest; and no worker has much more of it than another."""
    placed = collected_by_one(sizes, shared, workers)
    assert placed.keys() == {
        file for file in sizes if file not in shared and folder_of(file) not in COLLECTED_BY_ALL
    }
    load = [sum(sizes[file] for file, its in placed.items() if its == number) for number in range(workers)]
    assert max(load) - min(load) <= max((sizes[file] for file in placed), default=0)


class Worker:
    """Stands for what xdist knows of a worker; it runs a test when it knows the next one, or that there is none."""

    def __init__(self, number, collected):
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.collected = collected
        self.todo = []
        self.shutting_down = False

    def send_runtest_some(self, places):
        self.todo += places

    def shutdown(self):
        self.shutting_down = True

    @property
    def can_run(self):
        return len(self.todo) > (not self.shutting_down)


@pytest.fixture
def spread(root_conftest, tmp_path):
    """Makes a scheduler for so many workers, and the workers, in a `make test` with so many tests in these files."""

    def make(workers, counts):
        for folder in ("core", *COLLECTED_BY_ALL):
            (tmp_path / "tests" / folder).mkdir(parents=True, exist_ok=True)
        for file in FILES:
            (tmp_path / file).unlink(missing_ok=True)
        for file, count in counts.items():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_bytes(b"#" * count)
        session = SimpleNamespace(testscollected=0)
        config = SimpleNamespace(
            getvalue={"tx": [f"{workers}*popen"]}.get,
            rootpath=tmp_path,
            args=["tests"],
            option=SimpleNamespace(markexpr="not check", debug=False),
            getoption=lambda _name, default: default,
            pluginmanager=SimpleNamespace(getplugin={"dsession": SimpleNamespace(_session=session)}.get),
        )
        scheduler = root_conftest.pytest_xdist_make_scheduler(config, None)
        placed = collected_by_one(counts, (), workers)
        everything = [f"{file}::test_{number}" for file, count in counts.items() for number in range(count)]
        made = [
            Worker(number, [one for one in everything if placed.get(file_of(one), number) == number])
            for number in range(workers)
        ]
        for worker in made:
            scheduler.add_node(worker)
        for worker in made:
            scheduler.add_node_collection(worker, worker.collected)
        scheduler.schedule()
        assert session.testscollected == len(everything)
        return scheduler, made, everything

    return make


def play(scheduler, workers, turns):
    """Let the workers run tests, in some order, as long as there are any; gives the tests, one by one."""
    while able := [worker for worker in workers if worker.can_run]:
        worker = able[turns.randrange(len(able))]
        place = worker.todo.pop(0)
        scheduler.mark_test_complete(worker, place)
        yield worker.collected[place]


@given(
    workers=st.integers(1, 3),
    counts=st.dictionaries(st.sampled_from(FILES), st.integers(1, 300), min_size=1, max_size=8),
    turns=st.randoms(use_true_random=False),
)
def test_each_test_is_run_once_and_then_all_workers_are_told_to_end(spread, workers, counts, turns):
    """However quick each of them is."""
    scheduler, made, everything = spread(workers, counts)
    done = []
    for test in play(scheduler, made, turns):
        done.append(test)
        # Then xdist ends all workers, and each of them still runs the one that it has.
        assert not scheduler.tests_finished or len(everything) - len(done) <= workers
    assert sorted(done) == sorted(everything)
    assert scheduler.tests_finished
    assert not scheduler.has_pending
    assert all(worker.shutting_down for worker in made)


@given(
    counts=st.dictionaries(st.sampled_from(FILES), st.integers(1, 40), min_size=2, max_size=8),
    turns=st.randoms(use_true_random=False),
    after=st.integers(0, 40),
)
def test_what_a_worker_had_that_died_is_run_by_the_one_in_its_place(spread, counts, turns, after):
    """That one collects everything. What the dead one was at is named, and tried again."""
    scheduler, made, everything = spread(2, counts)
    dead, other = made
    done = [test for _, test in zip(range(after), play(scheduler, made, turns), strict=False)]
    crashed = scheduler.remove_node(dead)
    assert crashed is None or crashed in {*dead.collected} - {*done}
    place = Worker(2, everything)
    scheduler.add_node(place)
    scheduler.add_node_collection(place, everything)
    scheduler.schedule()
    done += play(scheduler, [other, place], turns)
    assert sorted(done) == sorted(everything)
    assert not scheduler.has_pending


def test_what_hangs_is_shown_once(root_conftest, monkeypatch, tmp_path):
    """With its name and with what each thread does, and the test goes on. When it takes much longer, its process is ended."""
    ended = []
    monkeypatch.setattr(root_conftest, "_begun_at", [time.monotonic() - 121])
    with (tmp_path / "stderr").open("w+b") as stderr:
        root_conftest.tell_what_hangs(stderr.fileno(), ended.append)
        assert not ended
        root_conftest.tell_what_hangs(stderr.fileno(), ended.append, 120)
        stderr.seek(0)
        shown = stderr.read().decode()
    name = test_what_hangs_is_shown_once.__name__
    assert shown.count("\nafter 120 s: tests/repo/") == shown.count(f"in {name}\n") == 1
    assert f"::{name} (call)\n" in shown
    assert "in _look_for_what_hangs" in shown  # of another thread
    assert ended == [1]
