"""What holds for every test: no network, no keys, one Hypothesis profile; and pages whose code runs.

Fixtures are not for this file; they live beside the tests that use them.
"""

import functools
import gc
import ipaddress
import itertools
import math
import os
import pkgutil
import re
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final

import pytest
import structlog
import trio
import trio._core._thread_cache as trio_threads
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, Phase, settings
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import tests.rewriting  # noqa: F401 - for what it does, and before what it is about

# isort: split
import agentrail
from agentrail.builds import FOLDER, look_at_build
from agentrail.gc_settings import THRESHOLDS
from agentrail.runtime.loop_watch import HELD_SECONDS, LoopWatch, SlowStep, describe_held
from tests.spread import Rules, Shares, collected_by_one, file_of
from tests.thinned import IS_NIGHTLY

# Settings of the machine that would change what a test does: a key turns `demo:` into a real model, a proxy sends
# requests for the loopback elsewhere.
SCRUBBED: Final = (
    *(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_BASE_URL",
    ),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)

# The machine is shared and a step of a session may compile a schema, so no example has a deadline; async tests get
# function-scoped fixtures from pytest-trio, which reset nothing that an example could leave behind.
QUIET: Final = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=QUIET)
# The same examples in every run: what is green here stays green, and what is red can be had again at home. `make property` and
# `make nightly` draw new ones, and so does pytest when it is run by hand.
settings.register_profile(
    "ci", max_examples=15, deadline=None, suppress_health_check=QUIET, derandomize=True, print_blob=True
)
# Whether a bug is seen is all that is asked: some more examples than in `ci`, and none is made smaller, which may take minutes.
settings.register_profile(
    "mutants", settings.get_profile("ci"), max_examples=75, phases=(Phase.explicit, Phase.generate)
)
settings.register_profile(
    "nightly", max_examples=5_000, deadline=None, suppress_health_check=QUIET, print_blob=True
)


# Properties in property_tests are held with all examples of the profile; beside unit tests they are one sentence of many.
# `make check` gives them more than this, and `make property` as many as the others.
UNIT_EXAMPLES: Final = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say how thorough the properties beside unit tests are, and how many sessions are folded."""
    parser.addoption(
        "--unit-examples",
        type=int,
        default=UNIT_EXAMPLES,
        metavar="N",
        help="examples of each property outside of property_tests, where the profile has more (default: %(default)s)",
    )
    parser.addoption(
        "--folded",
        choices=("some", "all"),
        default="some",
        help="of which tests in tests/runtime the journals of sessions are folded: one in eight, always the same, or all (default: %(default)s)",
    )
    parser.addoption(
        "--counted",
        choices=("all", "pure"),
        default="all",
        help="with --cov: in which tests lines are counted, in all or in those that the pure rooms need (default: %(default)s)",
    )
    parser.addoption(
        "--skipped-to",
        type=Path,
        metavar="FILE",
        help="write the tests that were skipped there, one in each line, so that `pytest @FILE` runs them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, forget the keys, close the network."""
    profile = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
    here = config.invocation_params.dir
    if not any("property_tests" in str(here / argument) for argument in config.args):
        most = config.getoption("unit_examples", default=UNIT_EXAMPLES)
        profile = settings(profile, max_examples=min(profile.max_examples, most))
    settings.register_profile("chosen", profile)
    settings.load_profile("chosen")
    for name in SCRUBBED:
        os.environ.pop(name, None)
    if os.environ.get("AGENTRAIL_TEST_BUILD") == "compiled":
        _demand_the_compiled_build()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell without job control begins what it puts behind itself so, and tests that send themselves a Ctrl-C would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.addaudithook(_refuse_what_leaves_the_machine)
    if not config.getoption("cov_source", default=None):  # where lines are counted, times say nothing
        _watch_every_run()
    if hasattr(config, "workerinput") and not (config.option.durations or config.option.xmlpath):
        _report_calls_alone(config)


def _report_calls_alone(config: pytest.Config) -> None:
    """In a worker: of a test that passes send what it came to, and not also that it was set up and taken down.

    Nobody shows that, unless durations are asked for, and two reports of three are of it.
    """
    manager = config.pluginmanager
    found = [one for one in manager.get_plugins() if type(one).__name__ == "WorkerInteractor"]
    for interactor in found:
        send = interactor.pytest_runtest_logreport

        def pytest_runtest_logreport(report: pytest.TestReport, send: Callable[..., None] = send) -> None:
            if report.when == "call" or not report.passed:
                send(report=report)

        manager.unregister(interactor)
        interactor.pytest_runtest_logreport = pytest_runtest_logreport
        manager.register(interactor)


def _demand_the_compiled_build() -> None:
    build, names = look_at_build(FOLDER, agentrail.__version__)
    interpreted = [name for name in names if Path(str(import_module(name).__file__)).suffix == ".py"]
    if build.fault or interpreted or not names:
        message = f"these tests are for the compiled build, but {build.fault or interpreted or 'this is the pure one'}"
        raise pytest.UsageError(message)
    pytest.MonkeyPatch.setattr = _only_where_it_is_seen(frozenset(names))  # type: ignore[method-assign]


def _only_where_it_is_seen(compiled: frozenset[str]) -> Callable[..., None]:
    """Skip a test that plants something in a compiled module: that calls its own without looking up their names."""
    plant = pytest.MonkeyPatch.setattr

    def setattr_or_skip(patch: pytest.MonkeyPatch, target: object, *rest: Any, **options: Any) -> None:
        where = target if isinstance(target, str) else getattr(target, "__module__", "")
        if isinstance(target, ModuleType):
            where = target.__name__
        found = next((name for name in compiled if f"{where}.".startswith(f"{name}.")), None)
        if found is not None:
            pytest.skip(f"plants something in {found}, which is compiled and would not look there")
        plant(patch, target, *rest, **options)

    return setattr_or_skip


def _refuse_what_leaves_the_machine(event: str, args: tuple[object, ...]) -> None:
    # Nearly none does: each import, each file that is opened and each attribute of a frame is an event.
    if not event.startswith("socket."):
        return
    match event, args:
        case ("socket.connect" | "socket.sendto", (_, (str(host), *_))) | (
            "socket.getaddrinfo",
            (str(host), *_),
        ):
            if not _is_loopback(host):
                message = (
                    f"{event} to {host!r}: tests reach nothing beyond the loopback; serve it on 127.0.0.1"
                )
                raise RuntimeError(message)
        case _:  # every other audit event, and sockets of other families
            pass


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"", "localhost"}


def _enter_folder_of_page(names: dict[str, Any]) -> None:
    """Run the programs of a page in an empty directory: some name a store in the current one."""
    before, folder = Path.cwd(), TemporaryDirectory()
    os.chdir(folder.name)

    def leave() -> None:
        os.chdir(before)
        folder.cleanup()

    names["__leave"] = leave


_pages = Sybil(
    name="page",
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md", "docs/*/*/*.md"],
    setup=_enter_folder_of_page,
    teardown=lambda names: names["__leave"](),
)
_docstrings = Sybil(
    name="docstring", parsers=[DocTestParser(), PythonCodeBlockParser()], patterns=["agentrail/**/*.py"]
)
_collect_examples: Callable[..., Any] = (_pages + _docstrings).pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Any:
    """Collect the examples of a file, and look for none in a module that has none: to find its docstrings takes long."""
    if file_path.suffix == ".py":
        text = file_path.read_text(encoding="utf-8")
        if ">>>" not in text and "```" not in text:
            return None
    return _collect_examples(file_path, parent)


def pytest_runtest_teardown() -> None:
    """Leave no log set up: `capture_logs` does, and so does a page; the records of later tests would go to stdout."""
    if structlog.is_configured():
        structlog.reset_defaults()


# --- collecting: ten thousand tests, and what they import, which live until the end


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Collect without the cyclic collector, and keep what was collected out of its sight: half of the time goes to it."""
    gc.disable()
    try:
        _import_counted(session.config)
        _import_ahead(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)  # a test that means garbage collects it
        gc.enable()


# How many tests lie between two collections. What a test left is garbage, or stays for good: a cache, a module. A test that
# collects by itself, to see that something is gone, looks at what came since and not at all of that.
_TESTS_BETWEEN_COLLECTIONS: Final = 100
_ended: Final = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """Keep what stays out of sight of the collector, now and then. From here on the worker may wait for the others."""
    _begun_at[0] = math.inf
    if next(_ended) % _TESTS_BETWEEN_COLLECTIONS == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """And at the end: pytest collects five times over before it leaves."""
    _begun_at[0] = math.inf
    gc.collect()
    gc.freeze()


# What hangs says where, after so long; the run as a whole is ended by who started it. `faulthandler.dump_traceback_later`, which pytest's
# `faulthandler_timeout` sets too, is not for it: its thread reads the frames of others while they change, and a test that was only
# slow then ended its process. This thread holds the interpreter's lock, so what never gives it up is not told.
# After longer its process is ended, so that one test is reported as failed and not the whole run when its time is over: except at a
# terminal, where someone may be in a debugger, and in `make nightly`.
_HANGS_SECONDS: Final = 120
_ENDS_SECONDS: Final = 600
_LOOKS_SECONDS: Final = 10
_monotonic: Final = time.monotonic
_begun_at: Final = [math.inf]
_told_of: Final = [math.inf]


def tell_what_hangs(
    fd: int, end: Callable[[int], object] | None = None, ends_seconds: float = _ENDS_SECONDS
) -> None:
    """Write what all threads do, once for each test that takes that long, and call `end` when it takes much longer."""
    begun_at, now = _begun_at[0], _monotonic()
    if now - begun_at > _HANGS_SECONDS and begun_at != _told_of[0]:
        _told_of[0] = begun_at
        threads = sys._current_frames().items()  # noqa: SLF001 - documented, and there is no other name for it
        stacks = [f"Thread {one}:\n{''.join(traceback.format_stack(frame))}" for one, frame in threads]
        test = os.environ.get("PYTEST_CURRENT_TEST")
        os.write(fd, f"\nafter {_HANGS_SECONDS} s: {test}\n{''.join(stacks)}".encode())
    if end is not None and now - begun_at > ends_seconds:
        end(1)


def _look_for_what_hangs(stderr_fd: int) -> None:
    end = None if IS_NIGHTLY or os.isatty(0) else os._exit
    while True:
        _sleep(_LOOKS_SECONDS)
        tell_what_hangs(stderr_fd, end)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to look for what hangs."""
    stderr_fd = session.config.stash[fault_handler_stderr_fd_key]
    threading.Thread(target=_look_for_what_hangs, args=(stderr_fd,), name="what hangs", daemon=True).start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """A test begins."""
    _begun_at[0] = _monotonic()


def _import_ahead(config: pytest.Config) -> None:
    """In a worker: import what it is to collect, beginning elsewhere than the others.

    In a fresh clone each module with tests is rewritten before it is imported first, and what came out is kept. Workers that
    go the same way all rewrite the same module at the same time, so each does all of the work.
    """
    worker: Mapping[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        return
    folders = [config.rootpath / argument for argument in config.args]
    ours = [folder for folder in folders if folder.is_dir() and folder.name in {"tests", "property_tests"}]
    elsewhere = _collected_elsewhere(config)
    modules = sorted(path for folder in ours for path in folder.rglob("test_*.py") if path not in elsewhere)
    first = len(modules) * _number_of(worker) // int(worker["workercount"])
    for path in (*modules[first:], *modules[:first]):
        with suppress(Exception, pytest.skip.Exception):  # pytest imports it again, and says it
            import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def _number_of(worker: Mapping[str, Any]) -> int:
    return int(str(worker["workerid"]).removeprefix("gw"))


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In a worker: leave out the files that another one collects; see `tests/spread.py`."""
    return True if collection_path in _collected_elsewhere(config) else None


_ELSEWHERE: Final = pytest.StashKey[frozenset[Path]]()


def _collected_elsewhere(config: pytest.Config) -> frozenset[Path]:
    found = config.stash.get(_ELSEWHERE, None)
    if found is None:
        worker: Mapping[str, Any] | None = getattr(config, "workerinput", None)
        found = frozenset()
        # One that came in the place of another has a higher number, and collects everything.
        if worker is not None and (me := _number_of(worker)) < int(worker["workercount"]):
            placed = _collected_by_one(config, int(worker["workercount"]))
            found = frozenset(config.rootpath / file for file, number in placed.items() if number != me)
        config.stash[_ELSEWHERE] = found
    return found


# The runs of all tests in tests/ that are shared out, by what `-m` says; and what is in a file whose tests of that run take long each.
_SHARED_OUT: Final = {
    "not check": None,
    "check": re.compile(r"\bmark\.check\b|^from tests\.thinned\b", re.MULTILINE),
}


def _collected_by_one(config: pytest.Config, workers: int) -> Mapping[str, int]:
    """Say which files are collected by one worker only, and by which.

    None where all lines are counted: there each worker collects everything, so that xdist refuses a test which has another name in each.
    """
    tests = config.rootpath / "tests"
    is_whole = any(config.rootpath / argument == tests for argument in config.args)
    if (
        not is_whole
        or config.option.markexpr not in _SHARED_OUT
        or (config.getoption("cov_source", default=None) and config.option.counted == "all")
    ):
        return {}
    takes_long = _SHARED_OUT[config.option.markexpr]
    by_all = {file_of(test) for test in SHARES}
    sizes = {}
    for path in tests.rglob("test_*.py"):
        file = path.relative_to(config.rootpath).as_posix()
        sizes[file] = path.stat().st_size
        if takes_long is not None and takes_long.search(path.read_text(encoding="utf-8")):
            by_all.add(file)
    return collected_by_one(sizes, by_all, workers)


# --- who runs what

# What tests, or all tests of a file, build once for each process that runs any of them is built in one process only.
SHARES: Final = {
    f"tests/{test}": share
    for share, tests in {
        "the small world": (
            "core/test_branching.py::test_a_branch_begins_at_every_state_of_a_small_world",
            "core/test_branching.py::test_what_goes_on_in_the_background_stays_behind",
            "core/test_host_gates.py::test_a_session_without_a_host_asks_and_tells_nothing",
            "core/test_host_gates.py::test_promise_holds_in_all_of_a_small_world_with_a_host",
            "core/test_host_gates.py::test_the_small_world_with_a_host_is_not_tiny",
            "core/test_legality.py::test_the_small_world_meets_every_cell",
            "core/test_machine.py::test_promise_holds_here_and_there_in_a_small_world",
            "core/test_machine.py::test_promise_holds_in_all_of_a_small_world",
            "core/test_what_models_see.py::test_the_end_of_a_cycle_comes_when_it_is_quiet",
            "promises/test_a_history_is_always_valid.py::test_calls_are_unanswered_only_while_they_run_or_a_person_decides",
        ),
        "what mypy reads": ("plugins/test_typing.py", "repo/test_keywords.py"),
        "a state for each kind of owner": (
            "core/test_owners.py::test_a_compaction_that_is_broken_off_waits_for_no_file",
            "core/test_owners.py::test_an_outcome_that_crashed_the_core_is_stood_in_for",
            "core/test_owners.py::test_every_owner_waits_for_something",
        ),
        "the types of vendors": (
            "gateway/protocols/test_a2a_clients.py",
            "gateway/protocols/test_openai_chat_calls.py",
            "protocols/test_a2a.py",
            "protocols/test_openai_chat.py",
            "protocols/test_openai_responses.py",
            "providers/test_requests.py",
            "providers/test_streams.py",
            "providers/test_vendors_clients.py",
        ),
    }.items()
    for test in tests
}

# Begun first: a test of half a minute that one worker begins last is half a minute in which the others have nothing to do.
LONGEST: Final = frozenset(
    {
        "test_a_branch_begins_at_every_state_of_a_small_world",
        "test_a_great_storm_holds",
        "test_a_life_of_threads_and_processes",
        "test_a_life_opens_nothing_real",
        "test_a_minute_of_faults_loses_nothing",
        "test_a_page_that_is_cut_and_whose_server_is_killed_shows_what_one_shows_that_was_not",
        "test_a_planted_bug_is_found_and_told_in_six_signals",
        "test_a_plugin_may_show_the_model_less_than_the_conversation",
        "test_a_quick_run_prints_its_table_and_writes_its_json",
        "test_no_command_runs_what_lies_in_the_directory",
        "test_no_mutant_that_is_allowed_does_harm",
        "test_nothing_that_was_acknowledged_is_lost_when_a_process_is_killed",
        "test_one_seed_is_one_run_in_twenty_processes",
        "test_the_commands_of_a_page_work_as_they_stand",
        "test_the_corpus_is_shown_as_text_everywhere",
        "test_the_harmful_lines_do_harm",
        "test_three_nodes_serve_one_session_and_survive_what_dies",
    }
)

# Commands, threads and servers are waited for, and meanwhile a core has nothing to do.
_MORE_THAN_CORES: Final = 2


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """With `-n auto`, let there be more workers than cores."""
    return (yield) + _MORE_THAN_CORES


# Tests of pages are more than half of what takes long, and a browser costs a second to begin: two share them, about half of the time each.
_OF_THE_FIRST_BROWSER: Final = frozenset(
    f"tests/console/test_{name}.py"
    for name in ("approvals", "bad_input", "hostile", "monkey", "reconnect", "session_live", "session_page")
)


_BROWSERS: Final = ("a browser", "another browser")
# One worker runs all of it, so it begins early.
_TOGETHER: Final = frozenset({*SHARES.values(), *_BROWSERS})


def scope_of(nodeid: str) -> str:
    """Name what a test is run together with: itself alone, the page it is an example of, its browser, or its share."""
    file = file_of(nodeid)
    # The later examples of a page use names of the earlier ones.
    if "::sybil:" in nodeid:
        return file
    if file.startswith("tests/console/"):
        return _BROWSERS[file not in _OF_THE_FIRST_BROWSER]
    return SHARES.get(nodeid.partition("[")[0]) or SHARES.get(file, nodeid)


def takes_long(nodeid: str) -> bool:
    """Say whether a test is to begin first, alone or with those that it is run together with."""
    return nodeid.rpartition("::")[2].partition("[")[0] in LONGEST or scope_of(nodeid) in _TOGETHER


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Use it."""

    def tell_all(tests: int) -> None:
        controller = config.pluginmanager.getplugin("dsession")
        controller._session.testscollected = tests  # noqa: SLF001 - progress is a part of it

    place = partial(_collected_by_one, config)
    rules = Rules(place=place, scope_of=scope_of, takes_long=takes_long, tell_all=tell_all)
    return Shares(config, log, rules)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the examples of a page back into their order after the shuffle, for the same reason; and heed what a module says of its runs."""
    for item in items:
        _run_as_its_module_says(item)
    examples = [item for item in items if isinstance(item, SybilItem)]
    examples.sort(key=lambda item: (item.path, item.example.start))
    others = [item for item in items if not isinstance(item, SybilItem)]
    others.sort(key=lambda item: not takes_long(item.nodeid))
    items[:] = [*others, *examples]


def _run_as_its_module_says(item: pytest.Item) -> None:
    """Put the mark `trio(run=...)` of a module before the one that pytest-trio has put on each coroutine, which would win."""
    for mark in item.iter_markers("trio"):
        if mark.kwargs.get("run") not in (None, _run, _run_watched):
            item.add_marker(pytest.mark.trio(**mark.kwargs), append=False)
            return


# --- in which tests lines are counted, where those of the pure rooms are

# What computes takes more than twice as long where lines are counted, so that is done in these tests only. They reach all of the pure
# rooms; a test elsewhere that alone reaches a line of theirs is added here.
_COUNTED: Final = re.compile(
    r"""docs/explanation/ | tests/(
    test_(frozen | typed)
    | (actors | blueprints | commands | config | core | evals | otp | plugins | protocols)/
    | (console/test_canonical | sandboxes/test_output | stores/test_notes).py
    | cli/test_(agents_come_back | cost | hosting | meanings | stored_views).py
    | gateway/(attacks/test_planted | stdio/test_.* | test_event_pages | test_past_routes).py
    | (host/test_(approval_forms | temporary_sessions) | mcp/test_waiting_questions | telemetry/test_metrics_over_http).py
    | runtime/test_(agents_of_their_own | background_commands | bare_answers | branches | breakpoints | client_calls | drifts
        | human_approval | links_of_calls | looking_back | meanings | no_secret_is_written | notes | plugin_changes_as_data
        | rules_reach_children | spans | spending | tool_port | what_is_approved_runs | wrong_types).py
    )""",
    re.VERBOSE,
)
# What computes long among them, and reaches no line that the others do not.
_NOT_COUNTED: Final = re.compile(
    r"""docs/explanation/ownership-model.md | tests/(
    actors/(test_machine_events.py::test_no_residue_ | test_trees_that_stand.py::test_a_restart_storm_)
    | core/journal/(test_branches.py::test_a_(fork | rewind)_at_each_ | test_golden_journals.py::test_a_stored_ | test_spans_of_lives.py)
    | core/test_(
        branching.py::test_(a_branch_begins_at_every_ | what_goes_on_in_the_background_) | codec.py::test_every_value_
        | exhaustive.py | gathering.py::test_exactly_ | hooking.py::test_a_plugin_sees_every_ | host_gates.py
        | legality.py::test_the_small_world_ | machine.py::test_promise_ | recorded_lives.py
        | state_codec.py::test_(a_life_with_ | golden_ | spoilt_) | step.py::test_a_step_comes_out_
        | what_models_see.py::test_the_end_of_a_cycle_
    )
    | otp/test_statem_timers.py::test_timers_leave_no_residue | protocols/test_(ag_ui_lives | ai_ui_lives).py
    | protocols/test_response_state.py::test_a_run_that_is_cut_anywhere_ | runtime/test_spending.py::test_a_budget_counts_what_was_cut_off
    )""",
    re.VERBOSE,
)
_COUNTERS: Final = pytest.StashKey[tuple[Any, Any]]()
# Trio keeps threads for tests that come later. Those that count are kept for tests that are counted.
_threads: Final = {True: trio_threads.ThreadCache(), False: trio_threads.THREAD_CACHE}


def _count(main: Any, others: Any) -> None:
    """Set what counts lines in this thread, and in those that begin; None for nothing."""
    sys.settrace(main)
    threading.settrace(others)
    trio_threads.THREAD_CACHE = _threads[main is not None]


def _import_counted(config: pytest.Config) -> None:
    """Import the pure rooms, where their lines are counted, and count from then on in tests only."""
    config.stash[_COUNTERS] = found = (sys.gettrace(), threading.gettrace())
    if config.option.counted != "pure" or found[0] is None:
        return
    for room in () if config.option.numprocesses else config.option.cov_source:
        for module in pkgutil.walk_packages(getattr(import_module(room), "__path__", ()), f"{room}."):
            import_module(module.name)
    _count(None, None)


_CACHED: Final = type(functools.cache(len))
_others_ran: Final = [True]


def _forget_others(rooms: tuple[str, ...]) -> None:
    """Empty the caches of the pure rooms. A line that a test reaches must not depend on what an uncounted test asked for before it."""
    for module in [found for name, found in sys.modules.items() if name.startswith(rooms)]:
        for value in vars(module).values():
            if isinstance(value, _CACHED):
                value.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Count lines in the tests of the pure rooms."""
    is_counted = _COUNTED.match(item.nodeid) and not _NOT_COUNTED.match(item.nodeid)
    if item.config.option.counted != "pure" or not is_counted:
        _others_ran[0] = True
        return (yield)
    if _others_ran[0]:
        _forget_others(tuple(item.config.option.cov_source))
        _others_ran[0] = False
    _count(*item.config.stash[_COUNTERS])
    try:
        return (yield)
    finally:
        _count(None, None)


# --- who holds the loop: the debug mode is on in every Trio run of every test

_LONGEST: Final = 10
_held: Final[list[SlowStep]] = []
_watches: Final[weakref.WeakSet[LoopWatch]] = weakref.WeakSet()
_watches_change: Final = threading.Lock()  # a set that grows while the thread goes through it ends the thread
_run: Final = trio.run
_sleep: Final = time.sleep  # kept: `check_plugin` looks whether anybody calls the other one


def _run_watched(*args: Any, instruments: Any = (), **options: Any) -> Any:
    watch = LoopWatch(_note)
    with _watches_change:
        _watches.add(watch)
    return _run(*args, instruments=[*instruments, watch], **options)


def _note(held: SlowStep) -> None:
    # What it computed itself, and not what it waited: a machine with other work makes every step long.
    if held.cpu_seconds > HELD_SECONDS:
        _held.append(held)


def _look_for_ever() -> None:
    while True:
        _sleep(HELD_SECONDS / 2)
        with _watches_change:
            watches = tuple(_watches)
        for watch in watches:
            watch.look()


def _watch_every_run() -> None:
    trio.run = _run_watched  # type: ignore[assignment]  # it takes what `run` takes
    threading.Thread(target=_look_for_ever, name="loop watch of the tests", daemon=True).start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Keep with a test who held the loop in it, so that it comes through from a worker of xdist."""
    _held.clear()
    try:
        return (yield)
    finally:
        longest = max(_held, key=lambda held: held.cpu_seconds, default=None)
        if longest is not None:
            item.user_properties.append(
                ("loop held", (round(longest.cpu_seconds * 1000), describe_held(longest)))
            )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name those that held it longest. No test fails by it: what it costs depends on the machine."""
    _write_skipped(terminalreporter)
    found = sorted(
        {
            (*value, report.nodeid)
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, value in getattr(report, "user_properties", ())
            if name == "loop held"
        },
        reverse=True,
    )
    if not found:
        return
    terminalreporter.section(f"who held the loop: {len(found)} tests, the longest {_LONGEST}")
    for milliseconds, said, where in found[:_LONGEST]:
        terminalreporter.line(f"{milliseconds} ms  {where}: {said.splitlines()[0]}")
        for line in said.splitlines()[-2:]:
            terminalreporter.line(f"        {line.strip()}")


def _write_skipped(terminalreporter: pytest.TerminalReporter) -> None:
    """Write what was skipped where `--skipped-to` says: of a page the page, whose later examples need the earlier ones."""
    file: Path | None = terminalreporter.config.getoption("skipped_to")
    if file is not None:
        skipped = {
            report.nodeid.partition("::sybil:")[0] for report in terminalreporter.stats.get("skipped", ())
        }
        file.write_text("".join(f"{test}\n" for test in sorted(skipped)), encoding="utf-8")
