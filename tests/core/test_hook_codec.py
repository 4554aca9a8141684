"""Hook events that people write down."""

import pytest

from agentrail.core.wire.hook_codec import decode_hook_event
from agentrail.errors import CodecError


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"hook": "Before"}', '{"hook": "BeforeTool"}', "[" * 100_000]
)
def test_what_is_no_hook_event_is_refused(text):
    """With those that there are."""
    with pytest.raises(CodecError, match="whose `hook` is one of SessionStarted, SessionEnding"):
        decode_hook_event(text)
