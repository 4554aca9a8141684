"""Token files, how a token is looked up in one, and what a new one is. No server runs here."""

import os
import stat
from math import inf, nan
from types import SimpleNamespace

import pytest

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.gateway.tokens import Tokens, decode_tokens, fault_of_mode, make_token, read_token_file

NOW = 1_800_000_000.0
DIGEST = "sha256:" + "ab" * 32
ENTRY = f'[[token]]\ndigest = "{DIGEST}"\ntenant = "acme"\n'


def faults_of(text):
    with pytest.raises(OptionError) as caught:
        decode_tokens(text.encode(), "tokens.toml")
    return "\n".join(caught.value.faults)


@pytest.fixture
def made():
    """Two tokens: of a user, which lasts a day, and of a tenant, which lasts for ever."""
    return (
        make_token("acme", "ann", scopes=("use", "inspect"), days=1, now=NOW),
        make_token("globex", now=NOW),
    )


@pytest.fixture
def tokens(made):
    return decode_tokens("\n".join(one.lines for one in made).encode(), "tokens.toml")


class At(outside.RealMachine):
    """A machine whose clock stands still."""

    def __init__(self, seconds):
        self.seconds = seconds

    def wall(self):
        return self.seconds


@pytest.mark.host("H-080")
def test_what_lets_no_call_in_is_all_alike(made, tokens):
    """Missing, empty, truncated, wrong and expired."""
    token = made[0].token
    for wrong in (None, "", token[:-1], token + "0", token.upper(), "ab" * 32, DIGEST, "ü\ud800"):
        assert tokens.find(wrong, NOW) is None
    assert tokens.find(token, NOW + 86_399) is not None
    assert tokens.find(token, NOW + 86_400) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tenant": ""}, "`tenant` is missing"),
        ({"tenant": "a b"}, "`tenant` is not a valid id: expected 1 to 128"),
        ({"user": '"\nuser = "root'}, "`user` is not a valid id"),
        ({"user": "../x"}, "`user` is not a valid id"),
        ({"scopes": []}, "`scopes` is empty, so the token allows nothing: expected some of use, inspect"),
        ({"scopes": ["us"]}, "unknown name 'us': did you mean 'use'?"),
        ({"scopes": ["root"]}, "unknown name: expected one of use, inspect"),
        *(
            ({"days": days}, " days; give a positive number, at most 2,900,000, or omit it")
            for days in (0, -1, 1e-9, 1e9, 1e300, nan, inf)
        ),
    ],
)
def test_what_no_token_can_be_for_is_refused(given, said):
    """So nothing that is printed needs to be quoted. It lasts for more than no time, and not beyond the calendar."""
    given = {"tenant": "acme", "user": "", **given}
    with pytest.raises(OptionError) as caught:
        make_token(given.pop("tenant"), given.pop("user"), **given, now=NOW)
    assert said in str(caught.value)


def test_what_is_no_token_file_is_said_with_its_place():
    """An operator's move, all faults at once."""
    for text, said in (
        ("", "tokens.toml: there is no token: create one with `agentrail token new`"),
        ("[[token]]", "tokens.toml, entry 1: `tenant` is missing"),
        (
            "[[token]]",
            "tokens.toml, entry 1: `digest` is not `sha256:` with 64 lower-case hexadecimal digits",
        ),
        (ENTRY + "scope = []", "entry 1: unknown name 'scope': did you mean 'scopes'?"),
        (ENTRY + 'scopes = "use"', "entry 1: `scopes` is not a list of texts"),
        (ENTRY + "scopes = [1]", "entry 1: `scopes` is not a list of texts"),
        (ENTRY + 'expires = "2030-01-01T00:00:00Z"', "entry 1: `expires` is not a time with a time zone"),
        (ENTRY + "expires = 2030-01-01", "entry 1: `expires` is not a time with a time zone"),
        (ENTRY + "expires = 2030-01-01T00:00:00", "entry 1: `expires` is not a time with a time zone"),
        (ENTRY + "user = 5", "entry 1: `user` is not a valid id"),
        (ENTRY + "\n" + ENTRY, "tokens.toml: two entries have the same digest"),
        ("[token]\n", "tokens.toml: `token` is not a list of tables: write [[token]] above each entry"),
        ("tokens = 1\n" + ENTRY, "tokens.toml: unknown name 'tokens': did you mean 'token'?"),
        ("digest = ", "tokens.toml is not TOML, at end of document"),
        ("[[token]]\nx", "tokens.toml is not TOML, at end of document"),
        ("[[token]]\nx y", "tokens.toml is not TOML, at line 2, column 3"),
        ("a = " + "[" * 100_000, "tokens.toml is "),
    ):
        assert said in faults_of(text), text


@pytest.mark.host("H-088")
def test_no_message_repeats_what_stands_in_a_token_file():
    """A token may have come to stand anywhere in it; messages end up in logs."""
    for text in (
        "agt_planted",
        "agt_planted = 1",
        '[[token]]\ndigest = "agt_planted"\ntenant = "acme"',
        '[[token]]\nagt_planted = "x"',
        '[[token]]\ndigest = "agt_planted',
        f'{ENTRY}user = "agt_planted/"',
        f'{ENTRY}scopes = ["agt_planted"]',
        f'{ENTRY}expires = "agt_planted"',
        f"{ENTRY}user = agt_planted",
    ):
        with pytest.raises(OptionError) as caught:
            decode_tokens(text.encode(), "tokens.toml")
        error = caught.value
        assert "planted" not in f"{error!r} {error} {error.__context__!r}", text


def test_whose_a_token_file_may_be():
    """The reader's own, or the system's; another user could put a token of theirs into it."""
    for mode, owner, reader, fault in (
        (stat.S_IFREG | 0o600, 1000, 1000, None),
        (stat.S_IFREG | 0o400, 0, 1000, None),
        (stat.S_IFREG | 0o600, 1001, 1000, "belongs to another user"),
        (stat.S_IFREG | 0o600, 1001, 0, "belongs to another user"),
        (stat.S_IFDIR | 0o700, 1000, 1000, "is not a file"),
        (stat.S_IFCHR | 0o600, 1000, 1000, "is not a file"),
    ):
        said = fault_of_mode(SimpleNamespace(st_mode=mode, st_uid=owner), reader)
        assert said is None if fault is None else fault in said, mode


def test_a_file_that_others_may_change_or_that_cannot_be_read_is_refused(tmp_path):
    """Before its text is read: modes, a missing file, a directory, a pipe, no path, a file without end."""
    path = tmp_path / "tokens.toml"
    path.write_text("no token file")
    for mode in (0o640, 0o604, 0o644, 0o620, 0o602, 0o610, 0o601):
        path.chmod(mode)
        said = rf"can be read or changed by others \(mode {mode:04o}\): .* chmod 600"
        with pytest.raises(OptionError, match=said):
            read_token_file(path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    large = tmp_path / "large"
    large.touch(0o600)
    os.truncate(large, (1 << 20) + 1)
    for path, said in (
        (tmp_path / "none", "cannot be read: No such file"),
        (tmp_path, "is not a file"),
        (pipe, "is not a file"),
        ("a\0b", "cannot be read: this is not a valid path"),
        (large, "has more than 1,048,576 bytes"),
    ):
        with pytest.raises(OptionError, match=said):
            read_token_file(path)


@pytest.mark.parametrize("entries", [5, [5], ["agr_canary"], None])
def test_entries_of_a_wrong_type_are_refused_and_not_repeated(entries):
    """A text in their place may be a token."""
    with pytest.raises(OptionError, match=r"^entries is of type \w+: expected a sequence, each TokenEntry"):
        Tokens(entries)
