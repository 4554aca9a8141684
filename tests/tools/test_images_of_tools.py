"""What a tool shows: ten pictures of 5 MiB, and each fault in a sentence that says what to do (11.2, K4)."""

from typing import Any

from agentrail.abc import Ok
from agentrail.messages import Image
from agentrail.tools.function import tool
from tests.runtime.test_tools_at_work import result_of

PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=")


async def test_a_function_may_return_them(supervisor):
    """`@tool` hands on what it is given."""

    @tool
    async def shot() -> Any:
        """Look."""
        return Ok(text="", images=(PICTURE,))

    assert (await result_of(supervisor, shot)).text == "[1 image]"
