"""Values that Python cannot print, given to the constructors of hosts, servers, stores and rules."""

from collections.abc import Callable
from typing import Any

import pytest

from agentrail.abc import HostHooks, HostVerdict, MemoryEntry
from agentrail.actors import Limits as MachineLimits, Registry
from agentrail.commands import SlashCommand
from agentrail.errors import AgentrailError
from agentrail.gateway import create_app
from agentrail.host import AgentProfile, AttachmentText, Deny, HandledResponse, HostOptions, Limits
from agentrail.providers.embeddings import OpenAIEmbedder
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.audit_file import path_of_audit
from agentrail.telemetry import OpenTelemetry
from agentrail.testing.models import ScriptedModel
from agentrail.tools.mcp import McpServer, OAuthClient
from agentrail.web.rules import WebRules, read_domain


class Unprintable:
    def __repr__(self) -> str:
        message = "no"
        raise RuntimeError(message)


ODD: Any = Unprintable()


USUAL: dict[str, Any] = {"id": "a", "name": "a", "options": SessionOptions(model=ScriptedModel([]))}
ENTRY: dict[str, Any] = {"id": "a", "text": "t", "at_ms": 1}


def profile(**given: Any) -> AgentProfile:
    return AgentProfile(**{**USUAL, **given})


def served(**given: Any) -> object:
    return create_app(auth=lambda _: None, profiles=[profile()], **given)


HOST = [
    "default_profile",
    "context_providers",
    "on_plugin_error",
    "hook_timeout",
    "supervisor",
    "memories",
    "notes",
    "knowledge",
    "embedder",
    "telemetry",
    "public_url",
    "idle_after",
    "advertise",
    "limits",
    "webhooks",
    "commands",
    "on_disconnect",
    "readiness_checks",
    "resolve_profile",
]
PROFILE = [
    "name",
    "description",
    "context_window",
    "public",
    "client_system",
    "show_tools",
    "approvers",
    "expose",
    "resources",
]
SERVER = ("tools", "hints", "connect_timeout", "required")
MAKERS: list[tuple[str, Callable[..., object]]] = [
    *((name, HostOptions) for name in HOST),
    *((name, profile) for name in PROFILE),
    *((name, lambda **given: McpServer("a", url="https://a.de", **given)) for name in SERVER),
    *((name, OAuthClient) for name in ("client_id", "client_metadata_url", "scopes", "grant")),
    *((name, OpenTelemetry) for name in ("exporter", "sample", "propagate")),
    *((name, served) for name in ("console", "protocols", "heartbeat")),
    *((name, Limits) for name in ("max_streams", "cost_per_day_usd")),
    *((name, HostVerdict) for name in ("deny", "input", "by")),
    ("before_tool", HostHooks),
    ("version", lambda **given: MemoryEntry(**{**ENTRY, **given})),
    ("status", lambda **given: HandledResponse({}, **given)),
    ("context_text", AttachmentText),
    ("reason", Deny),
    ("postponed", MachineLimits),
    ("keys", Registry),
    ("run", lambda **given: SlashCommand(**{"name": "a", "description": "d"} | given)),
    ("dimension", lambda **given: OpenAIEmbedder("m", **given)),
    ("audit", lambda audit: path_of_audit(audit, None)),
    ("domain", lambda **given: read_domain(*given.values())),
    ("port", lambda port: WebRules(ports=[port])),
]


@pytest.mark.parametrize(("name", "make"), MAKERS, ids=lambda part: part if isinstance(part, str) else "")
def test_a_value_that_cannot_be_printed_is_refused_by_name(name: str, make: Callable[..., object]) -> None:
    """The error is the library's own and names the argument, although the value's `__repr__` raises."""
    with pytest.raises((AgentrailError, ValueError)) as caught:
        make(**{name: ODD})
    assert name in str(caught.value)
    assert "Unprintable" in str(caught.value)
