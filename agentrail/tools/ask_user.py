"""The tool `ask_user`: a question to the user of the session. The session answers the call once the user has responded."""

from typing import Annotated

import msgspec

from agentrail.abc import Error
from agentrail.tools.function import tool


# `answered_by="user"`: the call waits as data in the state of its session, so it costs nothing and survives a
# restart.
@tool(effect_class="idempotent", timeout_seconds=300, answered_by="user")
async def ask_user(  # noqa: RUF029 - in the loop: a plain function would have a thread
    question: Annotated[str, msgspec.Meta(min_length=1), "What you need to know, in one or two sentences."],
    options: Annotated[tuple[str, ...], "Answers to choose from; none: any text."] = (),
) -> Error:
    """Ask the user a question and wait for the answer. Ask only what you cannot find out by yourself."""
    return Error(
        text=f"There is no user to ask outside of a session: {question} {', '.join(options)}".rstrip()
    )
