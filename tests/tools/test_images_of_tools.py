"""What a tool shows: ten pictures of 5 MiB, and each fault in a sentence that says what to do (11.2, K4)."""

import base64
from typing import Any

import attrs
import pytest

from agentrail.abc import MAX_IMAGE_BYTES, Ok
from agentrail.errors import ToolContractError
from agentrail.messages import Image
from agentrail.tools.function import tool
from tests.runtime.test_tools_at_work import result_of

made: Any = Image  # also of what a type checker refuses
PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=")


def picture_of(size: int) -> Image:
    """Make a picture of so many bytes."""
    return Image(media_type="image/jpeg", data=base64.b64encode(b"x" * size).decode())


async def test_a_function_may_return_them(supervisor):
    """`@tool` hands on what it is given."""

    @tool
    async def shot() -> Any:
        """Look."""
        return Ok(text="", images=(PICTURE,))

    assert (await result_of(supervisor, shot)).text == "[1 image]"


FAULTS = {
    "eleven": (
        (PICTURE,) * 11,
        "a result has 11 images, at most 10 are allowed: write the others to files, and give their paths in the text",
    ),
    "too large": (
        (PICTURE, picture_of(MAX_IMAGE_BYTES + 1)),
        "image 1 of a result has 5,242,881 bytes, at most 5,242,880 are allowed: make it smaller, or write it to a file",
    ),
    "one alone": (PICTURE, "expected a tuple of Image, such as (Image(…),)"),
    "a text": ("iVBORw0KGgo=", "images of a result are 'iVBORw0KGgo=': expected a tuple of Image"),
    "none": (None, "images of a result are None: expected a tuple of Image"),
    "a path": (("a.png",), "image 0 of a result is 'a.png': expected Image(media_type=…, data=…)"),
    "no picture": (
        (made(media_type="text/html", data="QUFB"),),
        "has the media type 'text/html': expected one such as image/png",
    ),
    "a line break in the type": (
        (made(media_type="image/png\n", data="QUFB"),),
        "expected one such as image/png",
    ),
    "bytes": (
        (made(media_type="image/png", data=b"QUFB"),),
        "has the data b'QUFB': expected its bytes in base64",
    ),
    "nothing in it": (
        (made(media_type="image/png", data=""),),
        "has the data '': expected its bytes in base64",
    ),
    "a number for a name": (
        (made(media_type="image/png", data="QUFB", name=7),),
        "has the name 7: expected text",
    ),
    "no base64": (
        (made(media_type="image/png", data="not base64!"),),
        "give base64.b64encode(raw).decode()",
    ),
    "line breaks": ((made(media_type="image/png", data="QUFB\nQUFB"),), "is no base64 without line breaks"),
    "half of a character": ((made(media_type="image/png", data="QUF\ud800"),), "is no base64"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_where_the_result_is_made(fault):
    """In the tool author's own line, before anything of it gets into a conversation."""
    images, words = FAULTS[fault]
    with pytest.raises(ToolContractError) as raised:
        Ok(text="x", images=images)
    assert words in str(raised.value)
    with pytest.raises(ToolContractError):
        attrs.evolve(Ok(text="x"), images=images)
