"""Whose a session is, and what may be an id: rules over values, held against many of them."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.host.attachments import Attachment
from agentrail.host.identity import (
    Access,
    SessionOwner,
    decide_access,
    digest_of_message,
    fault_of_name,
    fault_of_session_id,
    is_derived,
    session_id_for,
    user_data_of,
)
from agentrail.runtime.arguments import fault_of_digest
from agentrail.runtime.session_keys import fault_of_scope
from tests.thinned import each

ADA = SessionOwner("acme", "ada")
BOB = SessionOwner("acme", "bob")
EVE = SessionOwner("evil", "ada")

BAD: list[Any] = [
    "",
    "a/b",
    "..",
    "a..b",
    "a\0b",
    "a b",
    "a\n",
    "\n",
    "a" * 129,
    ".a",
    "-a",
    ":a",
    "é",
    "aé",
    "a٣",
]
BAD += ["٣", "\uff41", "a%2e%2e", "a\\b", "a\ud800", None, 5, b"a", ["a"]]


@pytest.mark.host("H-085")
@each("bad", BAD)
def test_what_is_no_id_is_refused_and_not_repeated(bad):
    """With `/`, `..`, NUL, a space, 129 characters, signs of other alphabets, or no text at all."""
    for rule in (fault_of_session_id, fault_of_name):
        fault = rule("user_id", bad)
        assert fault.startswith("user_id is not a valid id: expected 1 to 128 of A-Z a-z 0-9")
        assert rule("user_id", "secret/secret").count("secret") == 0


@given(st.text(max_size=130))
def test_whatever_is_taken_for_a_tenant_is_a_scope(value):
    """Else a tenant could sign in and start no session."""
    if fault_of_name("tenant_id", value) is None:
        assert fault_of_scope("scope", value) is None


@pytest.mark.host("H-028")
@pytest.mark.host("H-099")
@each(
    ("caller", "user_data", "creates", "answer"),
    [
        (ADA, None, True, Access.CREATE),
        (ADA, None, False, Access.UNKNOWN),
        (ADA, user_data_of(ADA, "desk"), True, Access.OPEN),
        (ADA, user_data_of(ADA, "desk"), False, Access.OPEN),
        (BOB, user_data_of(ADA, "desk"), True, Access.TAKEN),
        (BOB, user_data_of(ADA, "desk"), False, Access.UNKNOWN),
        (EVE, user_data_of(ADA, "desk"), False, Access.UNKNOWN),
        (ADA, {}, False, Access.UNKNOWN),
        (ADA, {"tenant_id": "acme"}, False, Access.UNKNOWN),
        (ADA, {"tenant_id": "acme", "user_id": ["ada"]}, False, Access.UNKNOWN),
    ],
)
def test_who_may_do_what_with_a_session_id(caller, user_data, creates, answer):
    """What is another's is what is not there; a session that no host started is no caller's."""
    assert decide_access(caller, "s-1", user_data, creates=creates) is answer


_names = st.text("ab.", min_size=1, max_size=3)


@pytest.mark.host("H-100")
@given(st.lists(st.tuples(_names, _names, _names), min_size=2, max_size=2))
def test_the_same_caller_and_client_id_give_the_same_session(asked):
    """And no others do: parts are not joined."""
    (tenant, user, client), (other_tenant, other_user, other_client) = asked
    one = session_id_for(SessionOwner(tenant, user), client)
    other = session_id_for(SessionOwner(other_tenant, other_user), other_client)
    assert (one == other) == (asked[0] == asked[1])
    assert fault_of_session_id("session_id", one) is None
    assert is_derived(one)


_files = st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.binary(max_size=3)), max_size=2)
_messages = st.tuples(st.text(max_size=3), _files, st.none() | st.text(max_size=2))


def _digest(message, files, mode):
    attachments = [Attachment(name=name, mime_type=mime, content=content) for name, mime, content in files]
    return digest_of_message(message, [one.identity for one in attachments], mode)


@pytest.mark.host("H-063")
@pytest.mark.host("H-101")
@given(_messages, _messages)
def test_two_messages_have_one_digest_when_they_are_equal(one, other):
    """Message, names, types, contents and mode count, each by itself."""
    assert (_digest(*one) == _digest(*other)) == (one == other)
    assert fault_of_digest(_digest(*one)) is None


def test_text_that_cannot_be_encoded_has_a_digest_too():
    """A lone surrogate is refused by the session, with its own words; two of them are not one message."""
    texts = ("\ud800", "\ud801", "?", "{'surrogates': 'eda080'}", "eda080")
    assert len({digest_of_message(text) for text in texts}) == 5
