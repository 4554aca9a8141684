"""Named modules: found by their files, with what they import from beside them, and nothing else of a directory."""

import importlib
import py_compile
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail import search_path
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.errors import OptionError, SandboxError
from agentrail.named_modules import NAMED_MODULES, NamedModules
from agentrail.runtime.session_loader import PluginFinder, found_at
from agentrail.sandboxes.protected_mounts import find_own_code, list_own_places
from agentrail.sandboxes.protected_names import ProtectedNames


@pytest.fixture(autouse=True)
def left_as_it_was(monkeypatch):
    """What one test admits and imports is there for no other one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(search_path, "LEFT_OUT", search_path.LEFT_OUT)
    before = {*sys.modules}
    left = [*search_path.LEFT_OUT]
    yield
    search_path.LEFT_OUT[:] = left
    for name in {*sys.modules} - before:
        if name.partition(".")[0] != "agentrail":  # a second copy of ours would have other classes
            del sys.modules[name]


def write(folder: Path, **files: str) -> Path:
    """Write modules: `a__b` is b in the package a, `a____init__` its own file."""
    for name, text in files.items():
        path = folder.joinpath(*name.replace("____init__", "__INIT").split("__"))
        path = path.with_name(f"{path.name.replace('INIT', '__init__')}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_named_module_is_loaded_with_what_it_imports_from_beside_it(tmp_path):
    """A module next to it, a package, and one below it by a relative import; each by its file, and `sys.path` stays as it is."""
    before = [*sys.path]
    write(
        tmp_path,
        nm_tools="import nm_helper\nfrom nm_pack import low\nfrom nm_pack.sub.deep import VALUE\nSUM = nm_helper.ONE + low.TWO + VALUE\n",
        nm_helper="ONE = 1\n",
        nm_pack____init__="",
        nm_pack__low="from . import other\nTWO = other.TWO\n",
        nm_pack__other="TWO = 2\n",
        nm_pack__sub__deep="VALUE = 4\n",
    )
    module = NamedModules().load("nm_tools", str(tmp_path))
    assert module.SUM == 7
    assert module.__file__ == str(tmp_path / "nm_tools.py")
    assert sys.path == before


def test_nothing_else_of_the_directory_can_be_imported(tmp_path):
    """Not a module that only looks like an optional package, and not one of a package that no import statement names."""
    write(tmp_path, nm_first="import nm_box\n", nm_box____init__="", nm_box__hidden="", nm_trap="")
    NamedModules().load("nm_first", str(tmp_path))
    for name in ("nm_trap", "nm_box.hidden"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_bytecode_beside_a_module_is_not_run(tmp_path):
    """A model that may not write the source writes a `.pyc` that claims to be of it; Python itself would take it."""
    write(tmp_path, nm_cached="WHO = 'them'\n")
    source = tmp_path / "nm_cached.py"
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    source.write_text("WHO = 'me'\n")
    assert NamedModules().load("nm_cached", str(tmp_path)).WHO == "me"


def test_an_installed_module_is_not_replaced(tmp_path):
    """Whoever names a file as an installed package is, hears which one counts; the standard library is never looked for here."""
    write(tmp_path, hypothesis__nm_none="", json="raise SystemExit\n")
    with pytest.raises(ImportError, match=r"is ignored, because .*rename your module"):
        NamedModules().load("hypothesis.nm_none", str(tmp_path))
    assert NamedModules().load("json", str(tmp_path)) is sys.modules["json"]


def test_modules_that_cannot_be_loaded_are_refused(tmp_path, monkeypatch):
    """Two files of one name, one that no statement imports, and more files than a directory of somebody else may have."""
    named = NamedModules()
    for place in ("one", "two"):
        write(tmp_path / place, nm_twice=f"WHERE = {place!r}")
    named.load("nm_twice", str(tmp_path / "one"))
    with pytest.raises(OptionError, match="cannot be loaded: rename one of them"):
        named.load("nm_twice", str(tmp_path / "two"))

    write(tmp_path, nm_dynamic="import importlib\nimportlib.import_module('nm_beside')\n", nm_beside="")
    with pytest.raises(ImportError, match=r"a module next to nm_dynamic\.py is found if an import statement"):
        NamedModules().load("nm_dynamic", str(tmp_path))

    monkeypatch.setattr("agentrail.named_modules.MAX_MODULE_FILES", 3)
    chain = {f"nm_link{number}": f"import nm_link{number + 1}\n" for number in range(9)}
    with pytest.raises(OptionError, match="more than 3 files"):
        NamedModules().trace("nm_link0", str(write(tmp_path, **chain)))


@pytest.mark.parametrize(
    "source", ["def (", "(" * 200_000, "x = '\0'", "from ........ import a\nfrom . import b"]
)
def test_a_file_that_cannot_be_read_as_python_imports_nothing(tmp_path, source):
    """Reading what it imports raises nothing: it is run by nobody yet."""
    assert [one.name for one in NamedModules().trace("nm_odd", str(write(tmp_path, nm_odd=source)))] == [
        "nm_odd"
    ]


def test_the_files_of_named_modules_are_written_by_no_tool(tmp_path):
    """They run in this process at the next start, outside of the sandbox."""
    write(tmp_path, nm_mine="from nm_kit import part\n", nm_kit____init__="", nm_kit__part="", nm_free="")
    NAMED_MODULES.load("nm_mine", str(tmp_path))
    own = find_own_code(tmp_path)
    assert own == (("nm_kit", "__init__.py"), ("nm_kit", "part.py"), ("nm_mine.py",))
    names = ProtectedNames((), own)
    assert names.find_written(("NM_mine.py",))
    assert names.find_written(("nm_kit", "part.py"))
    assert names.find_written(("nm_free.py",)) is None
    assert (tmp_path / "nm_mine.py").parts in list_own_places()


def test_of_very_many_files_the_packages_are_protected(tmp_path):
    """Each file is a mount of each command, and a process has few descriptors."""
    parts = {f"nm_wide__part{number}": "" for number in range(70)}
    lines = "".join(f"from nm_wide import part{number}\n" for number in range(70))
    NAMED_MODULES.load("nm_many", str(write(tmp_path, nm_many=lines, nm_wide____init__="", **parts)))
    assert find_own_code(tmp_path) == (("nm_many.py",), ("nm_wide",))
    with pytest.raises(SandboxError):
        find_own_code(Path(search_path.__file__).resolve().parent)


def test_the_current_directory_is_no_place_for_imports(tmp_path, monkeypatch):
    """Neither it nor a directory in it, by whatever way it came there; installed packages in it stay, and what is left out is found by name."""
    libraries = tmp_path / ".venv" / "lib" / "site-packages"
    below = write(tmp_path / "src", nm_below="HERE = True\n")
    elsewhere = str(tmp_path.parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(below), str(libraries), elsewhere, *sys.path])
    search_path.leave_out_current()
    assert sys.path[:2] == [str(libraries), elsewhere]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nm_below")
    assert NamedModules().load("nm_below", str(tmp_path)).HERE


def test_a_directory_that_was_removed_is_no_place_at_all(tmp_path, monkeypatch):
    """There is nothing in it to be imported."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    before = [*sys.path]
    search_path.leave_out_current()
    assert sys.path == before


@pytest.mark.parametrize("origin", ["this:x", "antigravity:fly", "subprocess:Popen"])
def test_an_origin_of_a_foreign_journal_runs_nothing_of_the_standard_library(origin):
    """Plugins are defined elsewhere, and a journal of somebody else says what it likes."""
    before = "this" in sys.modules, "antigravity" in sys.modules
    assert found_at(origin) is None
    assert ("this" in sys.modules, "antigravity" in sys.modules) == before


def test_an_origin_makes_nothing_but_plugins(tmp_path):
    """Any other class would be called without arguments because a journal names it."""
    write(tmp_path, nm_class="made = []\nclass Trap:\n    def __init__(self): made.append(self)\n")
    module = NAMED_MODULES.load("nm_class", str(tmp_path))
    record = PluginRecord(name="Trap", version="1", origin="nm_class:Trap", options=None)
    assert PluginFinder({})(record) is None
    assert module.made == []


_NAMES = tuple(f"nmp_{letter}" for letter in "abcdefg")


@given(st.dictionaries(st.sampled_from(_NAMES), st.lists(st.sampled_from(_NAMES), max_size=3), min_size=1))
def test_a_module_brings_what_is_reached_by_import_statements_and_nothing_else(tmp_path_factory, graph):
    """Whatever files there are: those that are read, hashed and protected are those that statements reach from the named one."""
    folder = tmp_path_factory.mktemp("graph")
    for name, wanted in graph.items():
        write(
            folder, **{name: "".join(f"try:\n    import {one}\nexcept ImportError: pass\n" for one in wanted)}
        )
    start = next(iter(graph))
    reached, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in graph and name not in reached:
            reached.add(name)
            waiting += graph[name]
    named = NamedModules()
    traced = named.trace(start, str(folder))
    assert {one.name for one in traced} == reached
    named.admit(traced)
    assert {path.stem for path in named.files()} == reached
    assert {name for name in _NAMES if named.find_spec(name) is not None} == reached
