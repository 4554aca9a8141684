"""TOML of others: where each value stands, in time that grows as the text does; whatever is wrong is one kind of fault, in every reader."""

import time
import tomllib
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from agentrail.cli.permissions_command import read_policy
from agentrail.config.config_file import MAX_CONFIG_BYTES, read_permissions, read_toml
from agentrail.config.imported_agents import read_codex_agent
from agentrail.config.imported_commands import CommandFault, read_gemini_command
from agentrail.config.permission_toml import with_allowed
from agentrail.config.toml_positions import (
    MAX_CONFIG_LEVELS,
    ConfigFault,
    ConfigPath,
    ConfigPlace,
    TooDeeplyNested,
    find_lines,
)
from agentrail.config.toml_text import TomlFault, read_toml_text
from agentrail.errors import OptionError

HALF = MAX_CONFIG_BYTES // 2
HOSTILE = {
    "a key of half a file": ".".join(["a"] * (HALF // 2)) + " = 1",
    "a header of half a file": "[" + ".".join(["a"] * (HALF // 2)) + "]",
    "a quoted key": "x = { " + " . ".join(['"a"'] * (HALF // 6)) + " = 1 }",
    "a number of digits": "allow = " + "1" * HALF,
    "a number in hexadecimal": "\nversion = 0x" + "f" * HALF,
    "a number in a list": 'mode = "default"\nallow = [1, 0b' + "1" * 64 + "]",
    "brackets": "allow = " + "[" * 5_000 + "]" * 5_000,
    "braces": "allow = " + "{a=" * (HALF // 2),
    "forty levels": "a = " + "[" * 40 + "]" * 40,
    "no end": 'a = "' + "\\u0041" * (HALF // 60),
    "blanks": "{" * 1000 + " " * HALF,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_holds_a_reader_up_or_makes_it_crash(text, tmp_path):
    """A project in which nobody trusts anything cannot keep a command from starting."""
    began = time.process_time()
    with pytest.raises(TomlFault) as caught:
        read_toml_text(text)
    assert 1 <= caught.value.line <= text.count("\n") + 1
    for read in (read_toml, read_permissions):
        assert [fault.place.line for fault in read("f.toml", text).faults] == [caught.value.line]
    assert read_codex_agent("f.toml", text, models={}).faults
    with pytest.raises(CommandFault, match=f"line {caught.value.line}: "):
        read_gemini_command("f.toml", text)
    with pytest.raises(OptionError, match=f"f:{caught.value.line}: "):
        with_allowed(text, ["shell(ls)"], name="f")
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(OptionError, match=f"f.toml:{caught.value.line}: "):
        read_policy(tmp_path / "f.toml")
    assert time.process_time() - began < 2.0


NAMES = st.sampled_from(["a", "b-1", "9", '"q \\" x"', "'y.z'", '"é\\u00e9"', '"]="', "c . d"])
SCALARS = st.sampled_from(
    [
        *("1", "-1.5e3", "true", "inf", "1979-05-27 07:32:00", "1979-05-27T07:32:00Z", "07:32:00", "0x1F"),
        *(
            '""',
            "''",
            '"a, ]#}"',
            "'# no \"comment'",
            '"\\"]"',
            '"""a\n"" ]\nb""""',
            '"""\\\n  x\\""""',
            "'''it''s\n[x]'''''",
        ),
        *('""""""', "''''''", '"""""a"""', "'''''a'''"),
    ]
)
GAPS = st.sampled_from(["", " ", "\n", " # a comment ] }\n", "\r\n\t"])


@st.composite
def arrays(draw: Any, of: Any) -> str:
    """An array over several lines, with comments, and perhaps a comma at its end."""
    items = draw(st.lists(of, max_size=3))
    inside = ",".join(f"{draw(GAPS)}{item}{draw(GAPS)}" for item in items)
    return f"[{inside}{',' if items and draw(st.booleans()) else ''}{draw(GAPS)}]"


@st.composite
def inline_tables(draw: Any, of: Any) -> str:
    return "{ " + ", ".join(f"{draw(NAMES)} = {item}" for item in draw(st.lists(of, max_size=3))) + " }"


VALUES = st.recursive(SCALARS, lambda of: arrays(of) | inline_tables(of), max_leaves=6)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(" . ".join)
STATEMENTS = st.one_of(
    st.tuples(PATHS, VALUES).map(lambda pair: f"{pair[0]}= {pair[1]}"),
    PATHS.map(lambda path: f"[ {path} ]"),
    PATHS.map(lambda path: f"[[{path}]]  # an array of tables"),
    st.sampled_from(["", "# a = 1", "   "]),
)
FILES = st.lists(STATEMENTS, max_size=9).map("\n".join)


def paths_in(value: object, path: ConfigPath = ()) -> set[ConfigPath]:
    """All paths of what `tomllib` gives."""
    pairs: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return {found for key, below in pairs for found in ({(*path, key)} | paths_in(below, (*path, key)))}


@given(FILES)
def test_every_value_has_a_line_and_nothing_else(text):
    """The paths are those of the values that `tomllib` gives, on any file that it takes."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)  # noqa: FBT003 - of Hypothesis
    lines = find_lines(text.replace("\r\n", "\n"))
    assert set(lines) == paths_in(tree)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@given(st.lists(st.tuples(GAPS, SCALARS), min_size=1, max_size=8))
def test_the_line_is_the_one_in_which_a_value_begins(pieces):
    """Whatever stands in front of it: comments, texts over several lines, line ends of Windows."""
    text, wanted = "", {}
    for number, (gap, scalar) in enumerate(pieces):
        text += f"\n{gap.replace(chr(13), '')}"
        wanted[f"k{number}",] = text.count("\n") + 1
        text += f"k{number} = {scalar}"
    assert find_lines(text) == wanted


@pytest.mark.parametrize("text", ["a=" + "[" * 40 + "]" * 40, "\n" + ".".join("a" * 40) + " = 1"])
def test_what_is_nested_too_deeply_is_refused(text):
    """Before paths of any length are made of it."""
    with pytest.raises(TooDeeplyNested, match=f"over {MAX_CONFIG_LEVELS} levels") as caught:
        find_lines(text)
    assert caught.value.line == text.count("\n") + 1


def test_a_place_without_a_line_has_that_of_what_it_is_part_of():
    """So what is missing is said of the table in which it is missing."""
    place = ConfigPlace(file="f.toml", path=("a",), lines={("a",): 7})
    assert str(place.below("b", 3)) == "f.toml:7"
    assert str(ConfigPlace(file="f.toml")) == "f.toml:1"
    assert str(ConfigFault(place=place.below("b", 3, "x y"), said="no")) == 'f.toml:7: a.b[3]."x y": no'
