"""What several tests build once for each process is built in one process, however many workers there are."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.fixture
def root_conftest(pytestconfig):
    """The root `conftest.py`, which says who runs what."""
    plugins = pytestconfig.pluginmanager.get_plugins()
    (found,) = [one for one in plugins if getattr(one, "__file__", None) == str(ROOT / "conftest.py")]
    return found


@pytest.fixture
def shares(root_conftest):
    """The names of the shares, by test or file."""
    return root_conftest.SHARES


def names_in(node: ast.AST) -> set[str]:
    """All names that are read somewhere below it."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


@pytest.mark.parametrize(
    ("built", "share"),
    [
        ("small_world", "the small world"),
        ("states_by_owner", "a state for each kind of owner"),
        ("surveyed", "the survey of the package"),
    ],
)
def test_who_asks_for_what_takes_seconds_to_build_shares_it(shares, built, share):
    """All tests that ask for it are in its share, and no others: to build it takes one to five seconds."""
    asking = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in TESTS
        if built in (text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and built in names_in(node)
    }
    assert asking == {name for name, its in shares.items() if its == share}


def test_what_is_begun_first_is_there(root_conftest):
    """Each of them is the name of a test: one that was renamed would begin last, and nothing would say why a run takes longer."""
    defined = re.findall(
        r"^(?:async )?def (test_\w+)", "\n".join(path.read_text() for path in TESTS), re.MULTILINE
    )
    assert set(defined) >= root_conftest.LONGEST


def test_who_asks_mypy_shares_what_it_has_read(shares):
    """All files that ask are in its share: two workers would read the package at the same time, each for half a minute."""
    asking = {
        str(path.relative_to(ROOT))
        for path in TESTS
        if re.search(r"^from .* import strict_mypy$", path.read_text(), re.MULTILINE)
    }
    assert asking == {name for name, its in shares.items() if its == "what mypy reads"} != set()


def test_who_asks_the_types_of_vendors_shares_them(shares):
    """All files that ask are in their share, and nobody imports a vendor's client to be collected."""
    vendors = {"anthropic", "google", "openai", "pydantic"}
    perhaps = re.compile(rf"^(from|import) ({'|'.join(vendors)}|tests\.providers)\b", re.MULTILINE)
    imports = {
        (str(path.relative_to(ROOT)), imported)
        for path in TESTS
        if perhaps.search(text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imported in [getattr(node, "module", None) or node.names[0].name]
    }
    asking = {file for file, imported in imports if imported == "tests.providers.vendors"}
    assert asking == {name for name, share in shares.items() if share == "the types of vendors"}
    assert [one for one in imports if one[1].partition(".")[0] in vendors] == []
