"""TOML of others is read in time that grows as it does, and whatever is wrong with it is one kind of fault: in every reader of such texts."""

import time

import pytest

from agentrail.cli.permissions_command import read_policy
from agentrail.config.config_file import MAX_CONFIG_BYTES, read_permissions, read_toml
from agentrail.config.imported_agents import read_codex_agent
from agentrail.config.imported_commands import CommandFault, read_gemini_command
from agentrail.config.permission_toml import with_allowed
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
