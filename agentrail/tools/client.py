"""Tools of the client: functions of a front end or API client, of which only the name and schema are known here."""

from attrs import field, frozen

from agentrail.abc import Error, ToolContext, ToolOutcome
from agentrail.core.values.toolbox import EffectClass, ToolSpec
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject
from agentrail.otp.field_rules import CheckedFields, TimeLimit


@frozen(kw_only=True)
class ClientTool(CheckedFields):
    """A tool of the program that sends the prompts. Its calls pass all gates, then wait as data, announced by `ClientCall`.

    The client runs the call and passes the result to `session.answer(ref, Ok(…))`. Without an answer, the call ends
    when its time is up. That also happens in a session without a client.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`.
        timeout_seconds: How long a call waits for the client, in seconds. None: the session's tool timeout.
        effect_class: Its guarantee about repeated execution. Also determines the text for a call without an answer.
    """

    name: str
    description: str
    parameters: JsonObject = field(converter=frozen_json)
    timeout_seconds: TimeLimit | None = None
    effect_class: EffectClass = "once"
    answered_by = "client"

    @property
    def spec(self) -> ToolSpec:
        """Its name, description and schema without code, for `PromptSettings.tools`."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            timeout_seconds=self.timeout_seconds,
            effect_class=self.effect_class,
            answered_by="client",
        )

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Return an error about the missing client. A session never calls this."""
        return Error(text=f"There is no client to run {self.name} outside of a session.")
