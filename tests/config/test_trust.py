"""Which directories a user trusts, as a text and back."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.trust import TrustList, decode_trust, encode_trust, file_digest
from agentrail.errors import OptionError

DIGESTS = st.dictionaries(st.text(max_size=8), st.binary(max_size=4).map(file_digest), max_size=3)


@given(st.dictionaries(st.text(max_size=8), DIGESTS, max_size=3))
def test_a_list_comes_back_as_it_was(directories):
    """`decode_trust` is the inverse of `encode_trust`."""
    trusted = TrustList(directories=directories)
    assert decode_trust(encode_trust(trusted), name="t") == trusted


@given(DIGESTS, DIGESTS)
def test_only_the_very_files_are_trusted(files, others):
    """A file that changed, came or went ends it; so does forgetting the directory."""
    trusted = TrustList().with_directory("/p", files)
    assert trusted.trusts("/p", files)
    assert trusted.trusts("/p", others) is (files == others)
    assert not trusted.trusts("/q", files)
    assert not trusted.with_directory("/p", {**files, "new": ""}).trusts("/p", files)
    assert not trusted.without_directory("/p").trusts("/p", files)
    assert trusted.without_directory("/q") == trusted


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[" * 10_000, '{"version": 2, "directories": {}}', '{"version": 1}', '{"version": 1, "directories": {"a": 1}}',
     '{"version": 1, "directories": {"a": {"b": 1}}}'],
)  # fmt: skip
def test_a_text_that_is_no_list_is_refused(text):
    """Trusting nothing instead would lose what was trusted with the next write."""
    with pytest.raises(OptionError, match=r"^t.json is not a list of trusted directories of version 1"):
        decode_trust(text, name="t.json")
