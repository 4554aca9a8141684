"""What is compiled follows from what a module defines; what it may not hold is checked by `make lint-repository`."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts.compiling import reason_against

ROOT = Path(__file__).parents[2]
FUNCTION = "def answer() -> int:\n    return 42\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (FUNCTION, None),
        (f"@final\nclass A:\n    pass\n{FUNCTION}", None),
        (f"@final\nclass A(Generic[T]):\n    pass\n{FUNCTION}", None),
        ("A = 1\n", "it has no functions"),
        (f"class A:\n    pass\n{FUNCTION}", "A is not marked @final"),
        (f"@final\n@frozen\nclass A:\n    pass\n{FUNCTION}", "A is decorated"),
        (f"@final\nclass A(msgspec.Struct):\n    pass\n{FUNCTION}", "A derives from Struct"),
        (f"@final\nclass A(Protocol):\n    pass\n{FUNCTION}", "A derives from Protocol"),
        (f"@final\nclass A(Exception):\n    pass\n{FUNCTION}", "A derives from Exception"),
        (f"@final\nclass A(metaclass=M):\n    pass\n{FUNCTION}", "A derives from a metaclass"),
        (f"# not compiled: it is slow enough\n{FUNCTION}", "it is slow enough"),
    ],
)
def test_what_a_module_defines_decides(source, reason):
    """Functions and plain final classes are compiled; a mark with a reason keeps a module out."""
    assert reason_against(source) == reason


@pytest.mark.check  # goes through all of the package
def test_a_pure_build_asks_for_nothing():
    """Neither mypy nor setuptools is needed to build, as long as nobody asks for the compiled build."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert [needed.partition(">")[0] for needed in build["requires"]] == ["hatchling"]
    code = "import sys, scripts.compiling; print({'mypy', 'mypyc', 'setuptools'} & set(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "set()", ran.stderr
