"""Tools of the client: functions of a front end or of an API client, of which only the name and the schema are known here."""

from typing import Literal

from attrs import field, frozen

from agentrail.abc import Error, ToolContext, ToolOutcome
from agentrail.core.values.toolbox import EffectClass
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject


@frozen(kw_only=True)
class ClientTool:
    """A tool of the program that brings the prompts. Its calls pass all gates, then wait as data; `ClientCall` says so.

    The client runs it and gives the result to `session.answer(ref, Ok(…))`. Where none does, the call is answered when its time
    is up: so that is what happens in a session that has no client.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`.
        description: What the model reads.
        parameters: JSON Schema of the arguments; frozen.
        timeout_seconds: How long a call waits for the client; None: as long as a tool of the session may take.
        effect_class: What it promises about being run twice; says too what is said of a call that got no answer.
    """

    name: str
    description: str
    parameters: JsonObject = field(converter=frozen_json)
    timeout_seconds: float | None = None
    effect_class: EffectClass = "once"
    answered_by: Literal["client"] = field(default="client", init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Say that there is no client: a session never calls this."""
        return Error(text=f"There is no client to run {self.name} outside of a session.")
