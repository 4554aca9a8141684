"""Pictures that a prompt names, and a conversation that is written to a file."""

import base64

import pytest

from agentrail.cli.chat_session import MAX_PICTURE_BYTES, reader_below, with_pictures
from agentrail.cli.chat_switch import GoTo, switch
from agentrail.errors import CommandError
from agentrail.messages import Image, SessionId, Text


def test_a_picture_is_sent_behind_the_words_or_it_is_said_why_not(tmp_path):
    """As it is, in base64, with the type of its name; of one that is not there, or too large, nothing is sent."""
    (tmp_path / "a.png").write_bytes(b"png")
    sent = with_pictures("see @a.png", reader_below(tmp_path))
    picture = Image(media_type="image/png", data=base64.b64encode(b"png").decode(), name="a.png")
    assert sent == (Text(text="see @a.png"), picture)
    assert with_pictures("see @a.py", reader_below(tmp_path)) == "see @a.py"

    with pytest.raises(
        CommandError, match=r"gone\.png cannot be read: No such file or directory; nothing was sent"
    ):
        with_pictures("@gone.png", reader_below(tmp_path))
    with pytest.raises(CommandError, match=r"more than 5,000,000 bytes; nothing was sent"):
        with_pictures("@a.png", lambda _: bytes(MAX_PICTURE_BYTES + 1))


async def test_where_a_chat_goes_on(tmp_path):
    """A new conversation always; one that is kept only with a store, and never this very one."""
    current = SessionId("s-1")
    assert await switch("clear", "", None, current) == GoTo()
    for name in ("sessions", "resume"):
        with pytest.raises(CommandError, match=f"/{name} needs a store, and this chat is not stored"):
            await switch(name, "", None, current)
