"""The files of a release agree on its version, and name what exists. `make release` builds and runs it."""

import re
import tomllib
from pathlib import Path

import agentrail

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VERSION = PYPROJECT["project"]["version"]


def test_every_file_has_the_same_version():
    """The package, the citation and the changelog, which has a section for it."""
    assert agentrail.__version__ == VERSION
    assert re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE) == [
        VERSION
    ]
    assert f"\n## {VERSION}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_sdist_holds_the_sources_of_the_wheel():
    """Its paths exist, and the build hook with the module that it loads is among them. Tests stay in the repository."""
    build = PYPROJECT["tool"]["hatch"]["build"]["targets"]
    included = build["sdist"]["include"]
    assert [one for one in included if not (ROOT / one.lstrip("/")).exists()] == []
    assert {f"/{build['wheel']['hooks']['custom']['path']}", "/scripts/compiling.py", "/agentrail"} <= {
        *included
    }
    assert not any("tests" in one for one in included)


def test_classifiers_name_the_supported_pythons():
    """From `requires-python` on."""
    classifiers = PYPROJECT["project"]["classifiers"]
    pythons = [one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)]
    assert PYPROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert len(set(classifiers)) == len(classifiers)
