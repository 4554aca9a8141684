"""A server for the conformance suite: one profile, with the tools, prompts and resources that the suite names. Prints its address."""

from typing import Any

import trio
from attrs import evolve

from agentrail import ToolContext, tool
from agentrail.abc import Error, Ok, Tool
from agentrail.commands import CommandRegistry
from agentrail.commands.markdown import CommandFile, commands_of_files
from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import AgentProfile
from agentrail.host.quotas import Limits
from agentrail.messages import Image, JsonObject, JsonValue
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.models import ScriptedModel
from agentrail.testing.tools import RecordingTool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAVE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
PROMPTS = {
    "test_input_required_result_prompt": b"---\nargument-hint: <context>\n---\nMind this: $1",
    "test_simple_prompt": b"This is a simple prompt for testing.",
    "test_prompt_with_arguments": b"---\nargument-hint: arg1 arg2\n---\nPrompt with arguments: '$1', '$2'",
}
RESOURCES = {
    "test://static-text": "read_text",
    "test://static-binary": "read_binary",
    "test://template/{id}/data": "read_data",
}
OPTIONS = ["option1", "option2", "option3"]
NAMED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
CHOICES = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": NAMED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option 1", "Option 2"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": NAMED}},
}
ADDRESS_BOOK: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADED: JsonObject = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}


async def ask(ctx: ToolContext, question: str, **properties: Any) -> str:
    """Show a form, and return the answers."""
    schema: Any = {"type": "object", "properties": properties, "required": [*properties]}
    return f"state-ok {await ctx.ask_user(question, schema=schema)}"


@tool
async def test_simple_text() -> str:
    """Tests text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> Ok:
    """Tests an image."""
    return Ok(text="An image.", images=(Image(media_type="image/png", data=PIXEL),))


def resource(uri: str, media_type: str = "text/plain", **content: str) -> Ok:
    """Return a resource, as a tool of a user's may."""
    held: JsonValue = {"uri": uri, "mimeType": media_type, **content}
    return Ok(text="A resource.", details={"mcp_content": [{"type": "resource", "resource": held}]})


@tool
async def test_audio_content() -> Ok:
    """Tests audio."""
    sound: JsonValue = {"type": "audio", "data": WAVE, "mimeType": "audio/wav"}
    return Ok(text="A sound.", details={"mcp_content": [sound]})


@tool
async def test_embedded_resource() -> Ok:
    """Tests a resource."""
    return resource("test://embedded-resource", text="This is an embedded resource content.")


@tool
async def test_multiple_content_types() -> Ok:
    """Tests several kinds in one result."""
    held = resource("test://mixed-content-resource", "application/json", text='{"test":"data","value":123}')
    return evolve(held, images=(Image(media_type="image/png", data=PIXEL),))


@tool
async def read_text() -> Ok:
    """Reads a text."""
    return resource("test://static-text", text="This is the content of the static text resource.")


@tool
async def read_binary() -> Ok:
    """Reads an image."""
    return resource("test://static-binary", "image/png", blob=PIXEL)


@tool
async def read_data(id: str) -> Ok:  # noqa: A002 - the name in the template
    """Reads what a template names."""
    text = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
    return resource(f"test://template/{id}/data", "application/json", text=text)


@tool
async def test_elicitation_sep1330_enums(ctx: ToolContext) -> str:
    """Tests choices."""
    return await ask(ctx, "Which?", **CHOICES)


@tool
async def test_error_handling() -> Error:
    """Tests an error."""
    return Error(text="This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Tests progress."""
    for text in ("0/100", "50/100", "100/100"):
        ctx.report_progress(text)
        await trio.sleep(0.05)
    return "done"


@tool
async def test_elicitation(ctx: ToolContext, message: str) -> str:
    """Tests a question."""
    return await ask(ctx, message, username={"type": "string"}, email={"type": "string"})


@tool
async def test_elicitation_sep1034_defaults(ctx: ToolContext) -> str:
    """Tests a form with defaults."""
    return await ask(ctx, "Who?", **DEFAULTS)


@tool
async def test_input_required_result_elicitation(ctx: ToolContext) -> str:
    """Tests a question."""
    return await ask(ctx, "What is your name?", name={"type": "string"})


@tool
async def test_input_required_result_request_state(ctx: ToolContext) -> str:
    """Tests the state of a question."""
    return await ask(ctx, "Please confirm", ok={"type": "boolean"})


@tool
async def test_input_required_result_tampered_state(ctx: ToolContext) -> str:
    """Tests a changed state."""
    return await ask(ctx, "Please confirm", ok={"type": "boolean"})


@tool
async def test_input_required_result_multi_round(ctx: ToolContext) -> str:
    """Tests two questions."""
    await ask(ctx, "Step 1: What is your name?", name={"type": "string"})
    return await ask(ctx, "Step 2: What is your favorite color?", color={"type": "string"})


@tool
async def test_missing_capability(ctx: ToolContext) -> str:
    """Tests a question to a client that cannot ask."""
    return await ask(ctx, "Please confirm", ok={"type": "boolean"})


@tool
async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Tests a question in a stream."""
    ctx.report_progress("asking")
    return await ask(ctx, "Please confirm", ok={"type": "boolean"})


@tool
async def test_logging_tool() -> str:
    """Tests that nothing is logged."""
    return "done"


TOOLS: list[Tool] = [
    RecordingTool(name="json_schema_2020_12_tool", parameters=ADDRESS_BOOK),
    RecordingTool(name="test_headed", parameters=HEADED),
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_elicitation_sep1330_enums,
    read_text,
    read_binary,
    read_data,
    test_missing_capability,
    test_streaming_elicitation,
    test_logging_tool,
    test_simple_text,
    test_image_content,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_input_required_result_elicitation,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multi_round,
]


async def main() -> None:
    """Serve until killed."""
    files = [
        CommandFile(name=f"{name}.md", path=f"{name}.md", data=text, source="user")
        for name, text in PROMPTS.items()
    ]
    options = SessionOptions(model=ScriptedModel([]), tools=TOOLS, sandbox="memory")
    app = create_app(
        profiles=[
            AgentProfile(
                id="desk", name="Desk", options=options, expose=("agent", "tools"), resources=RESOURCES
            )
        ],
        commands=CommandRegistry().with_commands(*commands_of_files(files)[0]),
        protocols=["mcp"],
        limits=Limits(
            messages_per_minute=6_000, messages_burst=6_000, calls_per_minute=6_000, calls_burst=6_000
        ),
        store=None,
    )
    listeners = await open_listeners("127.0.0.1", 0)
    host, port = addresses_of(listeners)[0]
    print(f"http://{host}:{port}/mcp", flush=True)  # noqa: T201
    await serve_app(app, listeners, trio.sleep_forever)


if __name__ == "__main__":
    trio.run(main)
