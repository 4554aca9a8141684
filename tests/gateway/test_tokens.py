"""Token files, how a token is looked up in one, and what a new one is. No server runs here."""

import os
import stat
from types import SimpleNamespace

import pytest

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.gateway.tokens import (
    TokenEntry,
    Tokens,
    bearer_token,
    decode_tokens,
    encode_entry,
    fault_of_mode,
    make_token,
    read_token_file,
)
from agentrail.host.payloads import Principal

NOW = 1_800_000_000.0
DIGEST = "sha256:" + "ab" * 32
ENTRY = f'[[token]]\ndigest = "{DIGEST}"\ntenant = "acme"\n'


def faults_of(text):
    """What is wrong with the text of a token file."""
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
    """What a file says that has both."""
    return decode_tokens("\n".join(one.lines for one in made).encode(), "tokens.toml")


def bearing(token):
    """Headers with a token."""
    return {"authorization": f"Bearer {token}"}


class At(outside.RealMachine):
    """A machine whose clock stands still."""

    def __init__(self, seconds):
        self.seconds = seconds

    def wall(self):
        """Say so."""
        return self.seconds


# --- looking one up


def test_a_token_says_who_calls(made, tokens):
    """Tenant, user and scopes; one without a user speaks for its tenant."""
    assert tokens.find(made[0].token, NOW) == Principal(
        tenant_id="acme", user_id="ann", scopes={"use", "inspect"}
    )
    assert tokens.find(made[1].token, NOW) == Principal(tenant_id="globex", user_id="", scopes={"use"})


def test_tokens_are_asked_with_the_headers_of_a_call(made, tokens):
    """That makes them one kind of `auth`; the time is that of the wall."""
    assert tokens(bearing(made[1].token)) == Principal(tenant_id="globex", user_id="", scopes={"use"})
    assert tokens({}) is None
    for late, who in ((0, "ann"), (86_400, None)):
        with outside.installed(At(NOW + late)):
            found = tokens(bearing(made[0].token))
        assert (found and found.user_id) == who


@pytest.mark.host("H-080")
def test_what_lets_no_call_in_is_all_alike(made, tokens):
    """Missing, empty, truncated, wrong and expired."""
    token = made[0].token
    for wrong in (None, "", token[:-1], token + "0", token.upper(), "ab" * 32, DIGEST, "ü\ud800"):
        assert tokens.find(wrong, NOW) is None
    assert tokens.find(token, NOW + 86_399) is not None
    assert tokens.find(token, NOW + 86_400) is None


def test_every_entry_is_compared_also_behind_the_one_that_fits(monkeypatch, made, tokens):
    """How long a look-up takes does not tell where in the file a token stands, or whether it does."""
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("agentrail.gateway.tokens.hmac.compare_digest", compare)
    for token in (made[0].token, made[1].token, "wrong", "", None):
        tokens.find(token, NOW)
        assert len(compared) == 2
        assert all(type(one) is bytes and len(one) == len(other) == 32 for one, other in compared)
        compared.clear()


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer agt_1", "agt_1"),
        ("bearer   agt_1", "agt_1"),
        ("BEARER a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="),
        ("Bearer", None),
        ("Bearer ", None),
        ("agt_1", None),
        ("Basic YTpi", None),
        ("Bearer a b", None),
        ("Bearer agt_1, Bearer agt_2", None),  # two headers
        ("Bearer a\tb", None),
        ("Bearer ä", None),
        ("Bearer " + "a" * 4_097, None),
    ],
)
def test_a_bearer_token_is_taken_whole_or_not_at_all(header, token):
    """RFC 6750; two headers are none."""
    assert bearer_token({"authorization": header}) == token


def test_a_call_without_the_header_has_no_token():
    """And another header is not looked at."""
    assert bearer_token({"x-api-key": "Bearer agt_1"}) is None


# --- a new one


def test_a_new_token_is_shown_once_and_its_lines_do_not_hold_it(made):
    """The file has the digest; nothing that is shown of the value holds the token."""
    new, tenants = made
    assert new.token.startswith("agt_")
    assert len(new.token) == 4 + 64  # 32 bytes beyond guessing
    assert new.token != tenants.token
    assert new.token not in new.lines
    assert new.token not in repr(new)
    first, *rest = new.lines.splitlines()
    assert first == "[[token]]"
    assert rest[1:] == [
        'tenant = "acme"',
        'user = "ann"',
        'scopes = ["use", "inspect"]',
        "expires = 2027-01-16T08:00:00Z",
    ]


@pytest.mark.parametrize("days", [0, -1, 1e-9, 1e9, 1e300, float("nan"), float("inf")])
def test_a_token_lasts_for_some_days(days):
    """Above 0, and not beyond the calendar."""
    with pytest.raises(OptionError, match=r"a token cannot last for .* days: give a number above 0"):
        make_token("acme", days=days, now=NOW)


@pytest.mark.parametrize(
    ("tenant", "user", "scopes", "said"),
    [
        ("", "", ["use"], "`tenant` is missing"),
        ("a b", "", ["use"], "`tenant` is no id: expected 1 to 128"),
        ("acme", '"\nuser = "root', ["use"], "`user` is no id"),
        ("acme", "../x", ["use"], "`user` is no id"),
        ("acme", "", [], "`scopes` is empty, so the token could do nothing: of use, inspect"),
        ("acme", "", ["us"], "unknown name 'us': did you mean 'use'?"),
        ("acme", "", ["root"], "unknown name: known are use, inspect"),
    ],
)
def test_what_no_token_can_be_for_is_refused(tenant, user, scopes, said):
    """So nothing that is printed needs to be quoted."""
    with pytest.raises(OptionError) as caught:
        make_token(tenant, user, scopes=scopes, now=NOW)
    assert said in str(caught.value)


def test_an_entry_is_read_as_it_was_written(made):
    """Ids with all signs that ids may have."""
    entry = TokenEntry(
        digest=bytes(range(32)), tenant_id="a.b_c:d@e+f-g", user_id="1", scopes=["inspect"], expires_at=1e9
    )
    assert decode_tokens(encode_entry(entry).encode(), "f").entries == (entry,)
    assert "expires = 2001-09-09T01:46:40Z" in encode_entry(entry)


# --- what is no token file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "tokens.toml: there is no token: make one with `agentrail token new`"),
        ("[[token]]", "tokens.toml, entry 1: `tenant` is missing"),
        ("[[token]]", "tokens.toml, entry 1: `digest` is no sha256: with 64 hexadecimal digits"),
        (ENTRY + "scope = []", "entry 1: unknown name 'scope': did you mean 'scopes'?"),
        (ENTRY + 'scopes = "use"', "entry 1: `scopes` is no list of texts"),
        (ENTRY + "scopes = [1]", "entry 1: `scopes` is no list of texts"),
        (ENTRY + 'expires = "2030-01-01T00:00:00Z"', "entry 1: `expires` is no time with its zone"),
        (ENTRY + "expires = 2030-01-01", "entry 1: `expires` is no time with its zone"),
        (ENTRY + "expires = 2030-01-01T00:00:00", "entry 1: `expires` is no time with its zone"),
        (ENTRY + "user = 5", "entry 1: `user` is no id"),
        (ENTRY + "\n" + ENTRY, "tokens.toml: two entries have one digest"),
        ("[token]\n", "tokens.toml: `token` is no list of tables: write [[token]] above each entry"),
        ("tokens = 1\n" + ENTRY, "tokens.toml: unknown name 'tokens': did you mean 'token'?"),
        ("digest = ", "tokens.toml is no TOML, at end of document"),
        ("[[token]]\nx", "tokens.toml is no TOML, at end of document"),
        ("[[token]]\nx y", "tokens.toml is no TOML, at line 2, column 3"),
        ("a = " + "[" * 100_000, "tokens.toml is "),
    ],
)
def test_what_is_no_token_file_is_said_with_its_place(text, said):
    """An operator's move, all faults at once."""
    assert said in faults_of(text)


def test_bytes_that_are_no_text_are_no_token_file():
    """And say where they stand no more than others do."""
    with pytest.raises(OptionError, match=r"^f is no TOML: `agentrail token new` prints the lines"):
        decode_tokens(b"\xff\xfe", "f")


@pytest.mark.host("H-088")
@pytest.mark.parametrize(
    "text",
    [
        "agt_planted",
        "agt_planted = 1",
        '[[token]]\ndigest = "agt_planted"\ntenant = "acme"',
        '[[token]]\nagt_planted = "x"',
        '[[token]]\ndigest = "agt_planted',
        f'{ENTRY}user = "agt_planted/"',
        f'{ENTRY}scopes = ["agt_planted"]',
        f'{ENTRY}expires = "agt_planted"',
        f"{ENTRY}user = agt_planted",
    ],
)
def test_no_message_repeats_what_stands_in_a_token_file(text):
    """A token may have come to stand anywhere in it; messages end up in logs."""
    with pytest.raises(OptionError) as caught:
        decode_tokens(text.encode(), "tokens.toml")
    error = caught.value
    assert "planted" not in f"{error!r} {error} {error.__context__!r}"


# --- the file itself


def test_a_file_that_its_owner_alone_may_read_is_read(tmp_path, made):
    """The names of a token file are the operator's business: a link is followed."""
    path = tmp_path / "tokens.toml"
    path.write_text(made[0].lines)
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_token_file(path).find(made[0].token, NOW) is not None
    assert read_token_file(f"{link}").find(made[0].token, NOW) is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602, 0o610, 0o601])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path, mode):
    """Also before its text is looked at."""
    path = tmp_path / "tokens.toml"
    path.write_text("no token file")
    path.chmod(mode)
    with pytest.raises(
        OptionError, match=rf"may be read or changed by others \(mode {mode:04o}\): .* chmod 600"
    ):
        read_token_file(path)


@pytest.mark.parametrize(
    ("mode", "owner", "reader", "fault"),
    [
        (stat.S_IFREG | 0o600, 1000, 1000, None),
        (stat.S_IFREG | 0o400, 0, 1000, None),
        (stat.S_IFREG | 0o600, 1001, 1000, "belongs to another user"),
        (stat.S_IFREG | 0o600, 1001, 0, "belongs to another user"),
        (stat.S_IFDIR | 0o700, 1000, 1000, "is no file"),
        (stat.S_IFCHR | 0o600, 1000, 1000, "is no file"),
    ],
)
def test_whose_a_token_file_may_be(mode, owner, reader, fault):
    """The reader's own, or the system's; another user could put a token of theirs into it."""
    said = fault_of_mode(SimpleNamespace(st_mode=mode, st_uid=owner), reader)
    assert said is None if fault is None else fault in said


def test_what_cannot_be_read_is_said(tmp_path):
    """A missing file, a directory, a pipe that is not waited for, a path that is none, a file without end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    large = tmp_path / "large"
    large.touch(0o600)
    os.truncate(large, (1 << 20) + 1)
    for path, said in (
        (tmp_path / "none", "cannot be read: No such file"),
        (tmp_path, "is no file"),
        (pipe, "is no file"),
        ("a\0b", "cannot be read: no path can be like this"),
        (large, "has more than 1,048,576 bytes"),
    ):
        with pytest.raises(OptionError, match=said):
            read_token_file(path)


def test_nothing_that_is_shown_of_tokens_has_a_digest_in_it(tokens):
    """A digest is as good as the token to who can guess it."""
    entry = TokenEntry(digest=b"d" * 32, tenant_id="acme")
    assert "ddd" not in repr(entry)
    assert repr(tokens) == "Tokens(2 entries)"
    with pytest.raises(OptionError, match="there is no token"):
        Tokens([])
