"""Which build runs, and that a compiled one that does not fit is left alone: its sources run, and `doctor` says why."""

import importlib.machinery
import json
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import agentrail
from agentrail.builds import FOLDER, look_at_build
from agentrail.cli.doctor_command import show_build, show_finding
from agentrail.core.session.machine import step
from benchmarks.bars import build_in_use
from scripts.run_mutants import ROOT

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
MODULE = "agentrail.otp.restarts"
SOURCE = "agentrail/otp/restarts.py"
EXTENSION = f"agentrail/otp/restarts{SUFFIX}"
HERE, NAMES = look_at_build(FOLDER, agentrail.__version__)
only_compiled = pytest.mark.skipif(not HERE.modules, reason="the pure build runs: make compiled-test")


@pytest.fixture
def package(tmp_path):
    """A copy of the sources beside which one module seems to be compiled, into what no Python could load."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "compiled.json")
    shutil.copytree(FOLDER / "agentrail", tmp_path / "agentrail", ignore=ignored)
    (tmp_path / EXTENSION).write_bytes(b"compiled")
    write_record(tmp_path)
    return tmp_path


def write_record(folder: Path, **changes: object) -> None:
    """Write the record that fits, but for these."""
    source = (folder / "agentrail/otp/restarts.py").read_bytes()
    record = {
        "version": agentrail.__version__,
        "suffix": SUFFIX,
        "extensions": {EXTENSION: zlib.crc32(b"compiled")},
        "sources": {MODULE: zlib.crc32(source)},
    }
    (folder / "agentrail/compiled.json").write_text(json.dumps(record | changes))


def run_there(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that has this copy of the package."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def say(folder: Path, version: str = agentrail.__version__) -> str:
    """What `agentrail doctor` says of it."""
    return show_finding(show_build(look_at_build(folder, version)[0]))


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a record of an older package": (
        lambda folder: write_record(folder, version="0.0.1"),
        "they are of version 0.0.1, and the package is ",
    ),
    "a Python of somebody else": (
        lambda folder: write_record(folder, suffix=".cpython-39-x86_64-linux-gnu.so"),
        "they were compiled for another Python (.cpython-39-x86_64-linux-gnu.so), and this one needs ",
    ),
    "a module is missing": (lambda folder: (folder / EXTENSION).unlink(), f"{EXTENSION} is missing"),
    "another build": (
        lambda folder: (folder / EXTENSION).write_bytes(b"of another version"),
        f"{EXTENSION} belongs to another build",
    ),
    "edited since": (
        lambda folder: (folder / SOURCE).write_text("EDITED = True\n" + (folder / SOURCE).read_text()),
        f"{MODULE} was not compiled from the source next to it",
    ),
    "a source is gone": (  # of another module than the one that is looked for
        lambda folder: write_record(folder, sources={"agentrail.otp.gone": 1}),
        "agentrail.otp.gone was not compiled from the source next to it",
    ),
    "unreadable": (
        lambda folder: (folder / "agentrail/compiled.json").write_text('{"version": "0.1'),
        "the record compiled.json cannot be read: ",
    ),
    "unknown": (
        lambda folder: write_record(folder, sources={}, extensions={}),
        f"{EXTENSION} does not belong to this build",
    ),
}
STARTED = {"another build", "edited since", "unreadable"}
"""Those with which an interpreter is started: one of each kind."""


def test_what_does_not_belong_together_is_left_alone(package):
    """The sources run in place of what was compiled, and `doctor` says why and what to do."""
    source = (package / SOURCE).read_text()
    for fault, (spoil, said) in FAULTS.items():
        (package / EXTENSION).write_bytes(b"compiled")
        (package / SOURCE).write_text(source)
        write_record(package)
        spoil(package)
        found = say(package)
        modules = 0 if fault == "unknown" else 1
        assert f"– build                pure, though {modules} modules were compiled: {said}" in found
        assert "AGENTRAIL_COMPILE=1 pip install --force-reinstall" in found
        if fault in STARTED:
            ran = run_there(package, f"import {MODULE} as module; print(module.__file__)")
            assert ran.stdout.strip() == str(package / SOURCE), ran.stderr


def test_what_belongs_together_is_taken(package):
    """Python takes what was compiled, so that the test above would fail if the sources were not chosen."""
    assert say(package) == "✓ build                compiled: 1 modules"
    ran = run_there(package, f"import {MODULE}")
    assert "ImportError" in ran.stderr
    assert EXTENSION in ran.stderr


def test_compiled_modules_without_a_record_are_named(package):
    """Nobody can say what they are of: `doctor` names them. Where nothing is compiled nothing is wrong; the bars follow from that."""
    (package / "agentrail/compiled.json").unlink()
    assert f"{EXTENSION} was compiled, but no record names its sources" in say(package)
    (package / f"agentrail/otp/guarded_calls{SUFFIX}").touch()
    assert f"agentrail/otp/guarded_calls{SUFFIX} (and 1 more) was compiled" in say(package)
    (package / f"agentrail/otp/guarded_calls{SUFFIX}").unlink()
    (package / EXTENSION).unlink()
    assert say(package) == "✓ build                pure: nothing is compiled"
    assert build_in_use() == ("compiled" if HERE.modules else "pure")


@pytest.mark.check
@pytest.mark.skipif(HERE.modules != 0, reason="the compiled build runs: all of it was compiled")
def test_one_module_is_compiled_and_its_tests_pass_on_it(tmp_path):
    """A smoke test of the compiled build; `make compiled-test` compiles all of it, and runs all tests on that."""
    module, file = "agentrail.otp.persistent_maps", "agentrail/otp/persistent_maps.py"
    alone = tmp_path / "alone"  # the rest of the package would be read for its types, for two minutes
    (alone / "agentrail/otp").mkdir(parents=True)
    shutil.copy(FOLDER / file, alone / file)
    for package in ("agentrail", "agentrail/otp"):
        (alone / package / "__init__.py").touch()
    command = [sys.executable, "scripts/compiling.py", str(alone), agentrail.__version__, module]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert made.returncode == 0, made.stdout + made.stderr
    shutil.copy(ROOT / "tests/otp/test_persistent_maps.py", alone)
    run_tests = "[test() for name, test in vars(tests).items() if name.startswith('test_')]"
    code = f"import {module} as module, test_persistent_maps as tests; print(module.__file__, len({run_tests}) > 1)"
    ran = run_there(alone, code)
    assert ran.stdout.strip() == f"{alone}/agentrail/otp/persistent_maps{SUFFIX} True", ran.stderr


# --- on the compiled build


@pytest.fixture
def installed(tmp_path):
    """A copy of the compiled build that runs."""
    shutil.copytree(FOLDER / "agentrail", tmp_path / "agentrail")
    for library in FOLDER.glob(f"agentrail_*__mypyc{SUFFIX}"):
        shutil.copy(library, tmp_path)
    return tmp_path


MAIN = f"import {step.__module__} as module; print(module.__file__)"


@only_compiled
def test_the_copy_runs_compiled(installed):
    """As it is, the copy is as good as what was installed."""
    ran = run_there(installed, MAIN)
    assert ran.stdout.strip().endswith(SUFFIX), ran.stderr
    assert say(installed) == f"✓ build                compiled: {HERE.modules} modules"


@only_compiled
@pytest.mark.parametrize("name", sorted({*NAMES[:1], *NAMES[-1:], step.__module__}))
def test_each_module_may_be_missing(installed, name):
    """Whichever it is, the sources run and a session lives; nothing jumps into what is not there."""
    missing_one = installed / f"{name.replace('.', '/')}{SUFFIX}"
    missing_one.unlink()
    assert f"{missing_one.relative_to(installed)} is missing" in say(installed)
    hello = (
        "from agentrail.cli import main; sys.argv = ['agentrail', 'run', '--model', 'demo:', 'Hello']; main()"
    )
    ran = run_there(installed, f"{MAIN}; {hello}")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0].endswith(".py")


@only_compiled
def test_the_library_may_be_missing(installed):
    """It is what all of them share."""
    next(installed.glob("*__mypyc*")).unlink()
    assert "__mypyc" in say(installed)
    assert run_there(installed, MAIN).stdout.strip().endswith(".py")


@only_compiled
def test_a_module_of_another_version_is_not_loaded(installed):
    """One that asks for a library that is not there, as one of another version does, would end the import."""
    here = installed / f"{NAMES[0].replace('.', '/')}{SUFFIX}"
    ours = next(installed.glob("*__mypyc*")).name.partition(".")[0].encode()
    here.write_bytes(here.read_bytes().replace(ours, ours[:-9].replace(b"0_1_0", b"0_0_9") + ours[-9:]))
    assert "belongs to another build" in say(installed)
    assert run_there(installed, MAIN).stdout.strip().endswith(".py")
    (installed / "agentrail/compiled.json").unlink()  # nobody looks then, and Python takes it
    assert "No module named" in run_there(installed, f"import {NAMES[0]}").stderr
