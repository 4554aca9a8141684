"""`agentrail token new`."""

import os
import subprocess
import sys

import pytest

from agentrail.cli.token_command import add_to_file, show_new
from agentrail.errors import OptionError
from agentrail.gateway.tokens import make_token, read_token_file
from tests.cli.rig import run_agentrail

NOW = 1_800_000_000.0


def made(tenant="acme"):
    return make_token(tenant, now=NOW)


async def test_what_no_token_can_be_for_is_said():
    """On stderr, with exit code 2, and no token is printed; a user without a tenant is told how it is said."""
    ran = await run_agentrail("token", "new", "a b", "--scopes", "us")
    assert (ran.code, ran.out) == (2, "")
    assert "`tenant` is not a valid id" in ran.err
    assert "did you mean 'use'?" in ran.err

    ran = await run_agentrail("token", "new", "", "ann")
    assert (ran.code, ran.out) == (2, "")
    assert "a user is one of a tenant: agentrail token new TENANT USER" in ran.err


def test_to_a_file_that_would_let_no_caller_in_nothing_is_added(tmp_path):
    """Nor to one that others may read, to a directory, or to a pipe that nobody reads, which is not waited for."""
    path = tmp_path / "tokens.toml"
    for text, mode, said in (
        ("", 0o644, r"can be read or changed by others \(mode 0644\)"),
        ("", 0o606, r"can be read or changed by others \(mode 0606\)"),
        ("no token file", 0o600, "is not TOML"),
        ("[[token]]\n", 0o600, "entry 1: `tenant` is missing"),
    ):
        path.write_text(text)
        path.chmod(mode)
        with pytest.raises(OptionError, match=said):
            add_to_file(path, made())
        assert path.read_text() == text
    os.mkfifo(tmp_path / "pipe", 0o600)
    for place in (tmp_path, tmp_path / "pipe", tmp_path / "none" / "tokens.toml"):
        with pytest.raises(OptionError, match="cannot be written"):
            add_to_file(place, made())
    with pytest.raises(OptionError, match=r"there is no directory '.*none'; create it first"):
        add_to_file(tmp_path / "none" / "tokens.toml", made())


def test_an_entry_stands_apart_from_a_file_without_a_last_end_of_line_and_is_shown_without_a_file(tmp_path):
    """As editors leave some; where no file takes the lines, with what to do with them."""
    path = tmp_path / "tokens.toml"
    first, second = made(), made("globex")
    add_to_file(path, first)
    path.write_text(path.read_text().removesuffix("\n"))
    add_to_file(path, second)
    assert [entry.tenant_id for entry in read_token_file(path).entries] == ["acme", "globex"]

    token = made()
    assert show_new(token, tmp_path) == f"{token.token}\n"
    shown = show_new(token, None)
    assert shown.startswith(f"{token.token}\n\n# It is shown only once")
    assert shown.endswith(token.lines)


def test_half_an_entry_is_not_left_in_the_file(tmp_path):
    """The disk is full in the middle of it: no server would start with half an entry, and the entries before it stay as they are."""
    path = tmp_path / "tokens.toml"
    add_to_file(path, made())
    before = path.read_bytes()
    limited = subprocess.run(
        [sys.executable, "-c", ADDING, str(path), str(len(before) + 20)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert limited.stderr.strip() == f"the token file '{path}' does not fit on its disk"
    assert path.read_bytes() == before


ADDING = """
import resource, sys
from pathlib import Path
from agentrail.cli.token_command import add_to_file
from agentrail.errors import OptionError
from agentrail.gateway.tokens import make_token
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    add_to_file(Path(sys.argv[1]), make_token("globex", now=1_800_000_000.0))
except OptionError as error:
    sys.exit(str(error))
"""
