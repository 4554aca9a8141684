"""The owner of a session as a store indexes it."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.journal.session_owner import NO_OWNER, owner_in_opened, owner_in_state, session_owner_key

NAMES = st.text(st.characters(), max_size=6)


@pytest.mark.hypothesis
@given(pairs=st.lists(st.tuples(NAMES, NAMES), unique=True, max_size=6))
def test_two_users_have_two_owners(pairs):
    """Whatever the ids hold: halves of characters, nothing at all, the end of one in the beginning of the other."""
    keys = [session_owner_key({"tenant_id": tenant, "user_id": user}) for tenant, user in pairs]
    assert len(set(keys)) == len(pairs)
    assert all(len(key) == 32 for key in keys)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"state":{"session_state":7}}', b"[" * 100_000, b"\xff"]
)
def test_a_body_that_cannot_be_read_names_no_owner(body):
    """Who reads the record reports the damage."""
    assert owner_in_opened(body) == owner_in_state(body) == NO_OWNER
