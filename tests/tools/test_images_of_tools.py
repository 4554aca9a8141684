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
from tests.thinned import each

PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=")


async def test_a_function_may_return_them(supervisor):
    """`@tool` hands on what it is given."""

    @tool
    async def shot() -> Any:
        """Look."""
        return Ok(text="", images=(PICTURE,))

    assert (await result_of(supervisor, shot)).text == "[1 image]"


NO_IMAGES = "the images of a result are {}: expected a tuple of Image"
BASE64 = "expected base64-encoded bytes"


def png(data: Any = "QUFB", **more: Any) -> Any:
    """Make a picture, also one that a type checker refuses."""
    return (Image(**{"media_type": "image/png", "data": data} | more),)


FAULTS: tuple[tuple[Any, str], ...] = (
    (
        (PICTURE,) * 11,
        "a result has 11 images, at most 10 are allowed: write the others to files and return their paths in the text",
    ),
    (
        (PICTURE, *png(base64.b64encode(b"x" * (MAX_IMAGE_BYTES + 1)).decode())),
        "image 1 of a result has 5,242,881 bytes, at most 5,242,880 are allowed: shrink it, or write it to a file",
    ),
    (PICTURE, "expected a tuple of Image, such as (Image(…),)"),
    ("iVBORw0KGgo=", NO_IMAGES.format("'iVBORw0KGgo='")),
    (None, NO_IMAGES.format("None")),
    (("a.png",), "image 0 of a result is 'a.png': expected Image(media_type=…, data=…)"),
    (png(media_type="text/html"), "type 'text/html': expected one such as image/png"),
    (png(media_type="image/png\n"), "expected one such as image/png"),
    (png(b"QUFB"), f"has the data b'QUFB': {BASE64}"),
    (png(""), f"has the data '': {BASE64}"),
    (png(name=7), "has the name 7: expected text"),
    (png("not base64!"), "give base64.b64encode(raw).decode()"),
    (png("QUFB\nQUFB"), "has data that is not base64 without line breaks:"),
    (png("QUF\ud800"), "is not base64"),
)


@each(("images", "words"), FAULTS)
def test_each_fault_is_named_where_the_result_is_made(images, words):
    """In the tool author's own line, before anything of it gets into a conversation."""
    with pytest.raises(ToolContractError) as raised:
        Ok(text="x", images=images)
    assert words in str(raised.value)
    with pytest.raises(ToolContractError):
        attrs.evolve(Ok(text="x"), images=images)
