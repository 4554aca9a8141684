"""The official types of ACP, which judge each message of ours: the JSON Schema of the SDK for JavaScript."""

import json
from functools import cache
from typing import Any

import jsonschema

from tests.checkout import CHECKOUT

SCHEMA = CHECKOUT / ".peers/acp/node_modules/@agentclientprotocol/sdk/schema/v1/schema.json"
_REQUESTS = {
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "session/update": "SessionNotification",
    "terminal/create": "CreateTerminalRequest",
    "terminal/wait_for_exit": "WaitForTerminalExitRequest",
    "terminal/output": "TerminalOutputRequest",
    "terminal/kill": "KillTerminalRequest",
    "terminal/release": "ReleaseTerminalRequest",
}
_RESULTS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "session/prompt": "PromptResponse",
}


@cache
def _validator(name: str) -> Any:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})


def check_frame(message: dict[str, Any], methods: dict[object, str]) -> None:
    """Raise if a message of ours is not one of the protocol. `methods` are those of the editor's requests, by id."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        _validator(_REQUESTS[message["method"]]).validate(message["params"])
    elif "error" in message:
        _validator("Error").validate(message["error"])
    else:
        _validator(_RESULTS[methods[message["id"]]]).validate(message["result"])
