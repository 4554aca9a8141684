"""The scripts that look at the source see what they say they see."""

import ast

import pytest

from scripts.ast_mutants import draw
from scripts.ast_mutations import mutations
from scripts.longest import PACKAGE, Place, Survey, below_bars, report, survey, too_long
from scripts.lower_bounds import ROOT, constraints
from scripts.module_survey import Merge, compiled_functions, pairs_by_reason, similar_classes, survey_modules
from scripts.scenario_coverage import SERIES, as_ranges, covered_numbers, marked_numbers
from scripts.verify_types import unsaid

MODULE = """\
def short():
    try:
        return 1
    except ValueError:
        return 2


def long():
    try:
        return 1
    except (OSError, Exception):
        return 2
    # one more line
    # and another
    return 3


def cleans_up(error):
    try:
        return 1
    except Exception:
        raise
    except BaseException:
        raise_what_travels(error)
"""


def test_the_survey_finds_the_long_and_the_swallowing(tmp_path):
    """Functions come longest first, and only a broad `except` without a `raise` counts as swallowing."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text(MODULE)
    found = survey(tmp_path / "room")
    assert found.functions[0] == Place(lines=8, where="room/module.py:8 long")
    assert [place.lines for place in found.functions] == [8, 7, 5]
    assert found.swallowing == ("room/module.py:11",)
    assert "Broad excepts that do not raise: 1" in list(report(found))


def test_what_is_too_long_is_named():
    """With its place and its limit; a table may be longer, for as long as it is."""
    found = Survey(
        functions=(Place(lines=71, where="room/a.py:3 long"), Place(lines=70, where="room/a.py:9 short")),
        files=(Place(lines=1001, where="room/a.py"), Place(lines=1000, where="room/b.py")),
    )
    file = "room/a.py has 1001 lines, a file has at most 1000: split it"
    long = "room/a.py:3 long has 71 lines, a function has at most 70: split it"
    assert list(too_long(found, {})) == [long, file]
    tables = {"room/a.py long": "a table", "room/a.py short": "a table"}
    needless = "room/a.py short is no longer too long: take it out of TABLES"
    assert list(too_long(found, tables)) == [file, needless]


MIXED = {
    "base.py": """\
class Base:
    \"\"\"Two lines
    of docstring.\"\"\"

    size = 1  # a comment after code is code
    # a comment is not
""",
    "whole.py": """\
from agentrail.base import Base
from agentrail.other import Twin

class Whole(Base):
    def one(self):
        from agentrail.base import Base

        return 1

class Twin:
    a = b = c = 1
""",
    "other.py": """\
class Twin:
    field: int
    \"\"\"Text below a field.\"\"\"

class Derived(Twin): pass
""",
}


def package_of(tmp_path, files):
    package = tmp_path / "agentrail"
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def test_a_class_counts_with_its_mixins_and_without_docstrings(tmp_path):
    """Bases are found by their import, so another class of the same name counts for nothing."""
    found = survey(package_of(tmp_path, MIXED))
    assert {place.where: place.lines for place in found.classes} == {
        "agentrail/base.py Base": 2,
        "agentrail/whole.py Whole": 5,
        "agentrail/whole.py Twin": 2,
        "agentrail/other.py Twin": 2,
        "agentrail/other.py Derived": 3,
    }
    assert (found.lines, found.code_lines) == (22, 10)


def test_a_module_with_one_importer_in_its_folder_is_mergeable(tmp_path):
    """Not one that an `__init__` exports, that two modules import, that makes a file too long, or a compiled one into one that is not."""
    modules = {
        "__init__.py": "from agentrail.public import a\n",
        "public.py": "a = 1\n",
        "small.py": "b = 1\n",
        "user.py": "from agentrail.small import b\nfrom agentrail import shared\nfrom agentrail.long import c\n",
        "second.py": "from agentrail import shared\nfrom agentrail import user\n",
        "shared.py": "",
        "long.py": "c = 1\n" * 96,
    }
    found = survey_modules(package_of(tmp_path, modules), max_file_lines=100)
    assert found.merges == (
        Merge(module="agentrail/small.py", into="agentrail/user.py"),
        Merge(module="agentrail/user.py", into="agentrail/second.py"),
    )
    refused = Merge(module="agentrail/long.py", into="agentrail/second.py")
    assert found.refused == ((refused, "the file would have 102 lines"),)
    assert found.mergeable_percent == 28.6

    modules = {
        "core/pure.py": "def count() -> int:\n    return 1\n",
        "core/user.py": "from agentrail.core.pure import count\nclass Open: pass\n",
    }
    package = package_of(tmp_path / "compiled", modules)
    found = survey_modules(package, max_file_lines=100)
    assert found.merges == ()
    assert [why for _, why in found.refused] == ["only one of the two is compiled"]
    assert compiled_functions(package) == 1


def test_classes_that_repeat_six_fields_are_found(tmp_path):
    """Six of seven are a pair, five are none."""
    classes = {"a": "abcdefg", "b": "bcdefg", "c": "cdefgyz"}
    modules = {
        f"{name}.py": f"class {name.upper()}:\n" + "".join(f"    {field}: int\n" for field in fields)
        for name, fields in classes.items()
    }
    (pair,) = similar_classes(package_of(tmp_path, modules))
    assert pair == ("agentrail/a.py A", "agentrail/b.py B")
    grouped = pairs_by_reason(
        [pair, ("agentrail/core/stack/loaded_stack.py Member", "agentrail/plugins/base.py Plugin")]
    )
    assert grouped[""] == ["A/B"]
    assert ["Member/Plugin"] in grouped.values()


def test_a_figure_that_is_worse_than_its_bar_is_named():
    """A worse figure, one without a bar and a bar without a figure each fail; a better figure does not."""
    bars = {"at_most": {"lines": 10, "files": 5}, "at_least": {"compiled": 3, "gone": 1}}
    assert list(below_bars({"lines": 10, "files": 4, "compiled": 3, "gone": 1}, bars)) == []
    assert list(below_bars({"lines": 11, "files": 5, "compiled": 2, "new": 1}, bars)) == [
        "lines is 11, its bar is 10: simplify, or raise the bar with a reason",
        "compiled is 2, its bar is 3: find what was lost",
        "new has no bar in bars.toml: add one",
        "gone is in bars.toml and is not measured: take it out",
    ]


MUTATED = """\
import os

FLAG: Final = True


def first(items: "list[int]", *, limit=1):
    \'\'\'Docstring.\'\'\'
    if TYPE_CHECKING:
        return None
    assert items, f"no {items}"
    if not items and limit < 2:
        raise ValueError("empty")
    for item in items:
        os.remove("ü")
        items.total += 1
        break
    return max(items, key=len) if FLAG else (limit + 1, 2)
"""


def test_each_operator_makes_its_mutations():
    """Every mutation parses and differs; annotations, docstrings, asserts and `if TYPE_CHECKING` stay."""
    made = mutations(MUTATED)
    lines = MUTATED.splitlines()
    found = {(lines[one.line - 1].split()[0], one.operator, one.new) for one in made}
    for mutation in made:
        changed = mutation.apply(MUTATED)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(MUTATED))
    assert {line for line, _, _ in found} == {
        *("FLAG:", "def", "if", "raise", 'os.remove("ü")', "items.total", "break", "return"),
    }
    assert {(operator, new) for line, operator, new in found if line == "if"} == {
        ("decide condition", "True"),
        ("decide condition", "False"),
        ("remove operand", "(limit < 2)"),
        ("remove operand", "(not items)"),
        ("remove not", "(items)"),
        ("compare otherwise", "(limit <= 2)"),
        ("change constant", "3"),
    }
    assert {(operator, new) for line, operator, new in found if line == "return"} == {
        ("return nothing", "None"),
        ("take branch", "(max(items, key=len))"),
        ("take branch", "((limit + 1, 2))"),
        ("remove argument", "max(items)"),
        ("remove element", "(2, )"),
        ("remove element", "(limit + 1, )"),
        ("calculate otherwise", "(limit - 1)"),
        ("remove operand", "(limit)"),
        ("change constant", "2"),
        ("change constant", "3"),
    }
    assert {
        (operator, new) for line, operator, new in found if line in {"raise", "break", "FLAG:", "items.total"}
    } == {
        ("remove raise", "pass"),
        ("break or continue", "continue"),
        ("change constant", "False"),
        ("remove statement", "pass"),
        ("change constant", "2"),
    }


def test_a_draw_depends_on_its_seed_alone():
    """The same seed draws the same bugs, with the tests of the module's own folder first."""
    tests = ("tests/core/a.py::t", "tests/typed/z.py::t")
    files = [path.relative_to(PACKAGE.parent).as_posix() for path in (PACKAGE / "typed").rglob("*.py")]
    by_line = {file: {1: (), 2: tests} for file in files}
    drawn = draw(["typed"], by_line, count=20, seed=7)
    assert drawn == draw(["typed"], by_line, count=20, seed=7) != draw(["typed"], by_line, count=20, seed=8)
    assert {bug.tests for bug in drawn} == {tests[::-1]}
    assert {bug.room for bug in drawn} == {"typed"}


def test_marks_are_found_wherever_they_stand():
    """A mark counts as a decorator, in `pytestmark` and in `pytest.param`, with and without its prefix."""
    source = """
pytestmark = [pytest.mark.at(39), pytest.mark.host("H-001")]
CASES = [pytest.param(1, marks=pytest.mark.scenario("S-002"))]

@pytest.mark.scenario("S-001", "S-003")
@pytest.mark.journal(8)
def test_it(): ...
"""
    expected = [("AT", 39), ("H", 1), ("J", 8), ("S", 1), ("S", 2), ("S", 3)]
    assert sorted(marked_numbers(source)) == expected


@pytest.mark.parametrize("mark", ['at("AT-8")', "at(163)", "journal(7)", 'scenario("AT-001")', "host(name)"])
def test_a_mark_with_a_wrong_number_is_refused(tmp_path, mark):
    """A number that the series does not have, or of another series, is an error that names the file and the line."""
    (tmp_path / "test_x.py").write_text(f"pytest.mark.{mark}")
    with pytest.raises(ValueError, match=r"test_x\.py: line 1: .* is no number of the series"):
        covered_numbers((tmp_path,))


def test_ranges_read_well_and_the_series_are_complete():
    """Neighbours become a range, nothing becomes a word; there are 189 OTP scenarios and 142 acceptance guarantees."""
    assert as_ranges({1, 2, 3, 7, 9, 10}) == "1-3, 7, 9-10"
    assert as_ranges(set()) == "none"
    sizes = {series: len(known) for series, known in SERIES.items()}
    assert sizes == {"S": 189, "AT": 142, "H": 101, "J": 29, "C": 38, "P": 57, "O": 21, "M": 26, "V": 23}


def test_the_lowest_versions_are_those_of_what_a_user_installs():
    """Each dependency and each of a user's extras, held to its bound; ours, and names of our own extras, left out."""
    extras = {"all": ["agentrail[http2]"], "http2": ["h2[x]~=4.1"], "test": ["pytest>=9"]}
    project = {"name": "agentrail", "dependencies": ["attrs>=25.4", "httpx>=0.28,<1"]}
    lowest = list(constraints(project | {"optional-dependencies": extras}))
    assert lowest == ["attrs==25.4", "httpx==0.28", "h2==4.1"]
    with pytest.raises(ValueError, match=r"'attrs<26' has no lower bound: write attrs>=VERSION"):
        list(constraints({"name": "agentrail", "dependencies": ["attrs<26"]}))


def symbol(name, *messages, known=True, ambiguous=True):
    told = [
        {"message": message, "file": f"{ROOT}/agentrail/room.py", "range": {"start": {"line": 6}}}
        for message in messages
    ]
    return {"name": name, "diagnostics": told, "isTypeKnown": known, "isTypeAmbiguous": ambiguous}


def test_an_unsaid_type_is_named_at_its_root():
    """One attribute without a type makes each signature that leads to it ambiguous: only the attribute is named."""
    root = symbol(
        "room.Door.width", "Type is missing type annotation and\n\xa0\xa0could be inferred differently"
    )
    unknown = symbol("room.Door.height", "Type unknown", known=False, ambiguous=False)
    follows = symbol("room.open", 'Type of parameter "door" is partially unknown')
    undocumented = symbol("room.Wall", 'No docstring found for class "room.Wall"', ambiguous=False)
    assert unsaid({"symbols": [follows, root, undocumented, unknown]}) == [
        "agentrail/room.py:7: room.Door.width: Type is missing type annotation and could be inferred differently",
        "agentrail/room.py:7: room.Door.height: Type unknown",
    ]
    nowhere = symbol("room.Gate", 'Type of base class "room.Door" is partially unknown')
    nowhere["diagnostics"][0]["file"] = ""
    assert unsaid({"symbols": [nowhere]}) == [
        'room.Gate: Type of base class "room.Door" is partially unknown'
    ]
    assert unsaid({"symbols": [follows, undocumented]}) == [
        'agentrail/room.py:7: room.open: Type of parameter "door" is partially unknown'
    ]
