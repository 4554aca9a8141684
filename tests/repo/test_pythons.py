"""The Pythons that are promised are those that `make test-pythons` runs the tests on."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "test_pythons.sh"

PYTHON = """#!/bin/sh
case "$2" in *print*) echo "$0" ;; esac
"""
SHIM = """#!/bin/sh
echo "pyenv: $0: command not found" >&2
exit 127
"""
MAKE = """#!/bin/sh
echo "make $*"
case "$*" in *.venv-3.98*) exit 2 ;; esac
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def run(tmp_path):
    """A function that runs the script with these Pythons chosen, and with our own `make`."""
    program(tmp_path / "bin/make", MAKE)
    program(tmp_path / "bin/python3.97", PYTHON)
    program(tmp_path / "bin/python3.98", PYTHON)
    program(tmp_path / "bin/python3.99", SHIM)
    program(tmp_path / "pyenv/versions/3.99.1/bin/python", PYTHON)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(pythons):
        environment = {**os.environ, "PATH": path, "PYENV_ROOT": str(tmp_path / "pyenv"), "PYTHONS": pythons}
        return subprocess.run(
            ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_each_python_has_an_environment_of_its_own(run, tmp_path):
    """From the PATH, and from pyenv where the PATH has a shim without its Python; one that is missing is named."""
    done = run("3.97 3.99 3.100")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("make ")] == [
        f"make --no-print-directory VENV=.venv-3.97 PYTHON={tmp_path}/bin/python3.97 test",
        f"make --no-print-directory VENV=.venv-3.99 PYTHON={tmp_path}/pyenv/versions/3.99.1/bin/python test",
    ]
    assert "not tested, because not installed: Python 3.100\n" in done.stdout


def test_a_python_that_fails_is_named_after_the_others_have_run(run):
    """The run fails, and no other Python is left out."""
    done = run("3.98 3.97")
    assert done.returncode == 1
    assert "VENV=.venv-3.97" in done.stdout
    assert done.stderr.endswith("failed on Python 3.98\n")
