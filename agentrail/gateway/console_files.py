"""The web console: its files, its content security policy, and `GET /console/info`. The files need no token."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import frozen

from agentrail import outside
from agentrail.core.protocol.request import ModelFacts
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.path_endpoint import CallRoute, RouteCall
from agentrail.gateway.response_bodies import (
    ConsoleInfo,
    ConsoleLimits,
    ConsoleModel,
    ConsolePrincipal,
    ConsoleProfile,
)
from agentrail.gateway.route_errors import BY_PLACE
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.agent_profiles import AgentProfile, fault_of_profile, models_in
from agentrail.host.hook_payloads import Principal
from agentrail.host.host import Host
from agentrail.runtime.session_rows import model_facts_of
from agentrail.wire.server_frames import PROTOCOL

# Facts that a console needs before it draws anything. Other calls return them too.

FEATURES: Final[tuple[str, ...]] = (
    "watch",
    "events",
    "call_details",
    "replay_frames",
    "spans",
    "context",
    "tree",
    "plugin_calls",
    "cost",
    "trace_filters",
    "state_at",
    "explain",
    "approvals",
    "rules",
    "rewind_dry",
)
"""Features of this server that consoles can show; a console hides all others. In order of introduction."""

LOOKED_AT: Final = 200
"""Sessions examined for facts about their models."""


async def _info(call: RouteCall) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    host, principal, gateway = call.host, call.principal, call.gateway
    profiles = [*host.options.checked_profiles.by_id.values()]
    expires_at = gateway.callers.expires_at(call.head)
    told = ConsoleInfo(
        version=gateway.version,
        instance=gateway.instance,
        protocol=PROTOCOL,
        features=FEATURES,
        principal=ConsolePrincipal(
            tenant=principal.tenant_id,
            user=principal.user_id or None,
            scopes=tuple(sorted(principal.scopes)),
            expires_at_ms=None if expires_at is None else int(expires_at * 1_000),
        ),
        profiles=tuple([_profile(host, one) for one in profiles]),
        models=tuple(_models(host, principal, profiles)),
        limits=ConsoleLimits(
            frame_bytes=gateway.limits.max_frame_bytes,
            subscriptions=gateway.limits.max_subscriptions,
            commands_per_second=gateway.limits.commands_per_second,
            cost_per_day_usd=gateway.limits.cost_per_day_usd,
            tenant_cost_per_day_usd=gateway.limits.tenant_cost_per_day_usd,
        ),
        journal=host.has_store,
        demo=gateway.is_demo,
    )
    return answer_json(told)


def _profile(host: Host, profile: AgentProfile) -> ConsoleProfile:
    return ConsoleProfile(
        agent_id=profile.id,
        name=profile.name,
        description=profile.description or None,
        model=next(iter(models_in(profile)), None),
        fault=fault_of_profile(profile, host.supervisor.fault_of_model),
    )


def _models(host: Host, principal: Principal, profiles: Iterable[AgentProfile]) -> Iterable[ConsoleModel]:
    """Yield the models of all profiles, without creating providers, which may need keys."""
    known: dict[str, ModelFacts] = {}
    for session in host.sessions_of(principal)[:LOOKED_AT]:
        facts = model_facts_of(session)
        if facts is not None:
            known.setdefault(facts.model, facts)
    windows = {name: one.context_window for one in profiles for name in models_in(one)[:1]}
    names = dict.fromkeys([*(name for one in profiles for name in models_in(one)), *known])
    for name in names:
        facts = known.get(name)
        window = windows.get(name)
        if facts is not None and not facts.window_is_assumed:
            window = window or facts.context_window
        price = None if facts is None else facts.price
        yield ConsoleModel(
            model=name,
            window=window,
            input_price=None if price is None else price.input,
            output_price=None if price is None else price.output,
        )


INFO_ROUTES: Final = (
    CallRoute(
        "GET",
        "/console/info",
        _info,
        does="describes this server to a console",
        needs_user=False,
        replies={200: ConsoleInfo},
    ),
)


ROOT: Final = Path(__file__).parent / "console"

CONTENT_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""Served files, by extension. Types, licences and vendoring lists are in the same directory, but not served."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security policy of the console: nothing inline, no other origin, no text that becomes markup."""

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""Headers of every console file."""

INDEX: Final = "index.html"

_PART: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@frozen
class ConsoleFile:
    content: bytes
    content_type: str
    etag: str


def find_file(path: str, root: Path = ROOT) -> ConsoleFile | None:
    """Read a console file, or return None. Blocks."""
    parts = (path or INDEX).split("/")
    content_type = CONTENT_TYPES.get(Path(parts[-1]).suffix)
    # No segment starts with a dot, so none leads upwards, and none is empty, so the path is not absolute.
    if content_type is None or not all(_PART.fullmatch(part) for part in parts):
        return None
    try:
        content = root.joinpath(*parts).read_bytes()
    except (OSError, ValueError):
        return None
    return ConsoleFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


async def answer_file(call: RouteCall) -> WholeAnswer:
    found = await outside.offload(lambda: find_file(call.params["path"]))
    if found is None:
        refuse_call("file_unknown", "the console has no such file")
    if found.content_type.startswith("text/html"):
        # The page refers to files of its own version. A cached page would request files that no longer exist.
        headers = {**HEADERS, "cache-control": "no-store"}
        return WholeAnswer(body=found.content, content_type=found.content_type, headers=headers)
    headers = {**HEADERS, "cache-control": "no-cache", "etag": found.etag}
    if found.etag in call.head.headers.get("if-none-match", ""):
        return WholeAnswer(status=304, headers=headers)
    return WholeAnswer(body=found.content, content_type=found.content_type, headers=headers)


async def answer_bare(_: RouteCall) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    """Redirect to the console page, whose relative links need the final slash."""
    return lead_to_console()


def lead_to_console() -> WholeAnswer:
    """Redirect a browser to the console. Relative, because a proxy may have removed a prefix."""
    return WholeAnswer(status=302, headers={"location": "console/", "vary": "Accept"})


def wants_page(headers: Mapping[str, str]) -> bool:
    return "text/html" in headers.get("accept", "").lower()


CONSOLE_FILE_ROUTES: Final = (
    CallRoute(
        "GET",
        "/console",
        answer_bare,
        does="redirects to the web console",
        scope=None,
        is_guarded=True,
        success=302,
        replies={302: ()},
        refusals=BY_PLACE,
    ),
    CallRoute(
        "GET",
        "/console/{path:path}",
        answer_file,
        does="serves a file of the web console",
        scope=None,
        is_guarded=True,
        content=tuple(CONTENT_TYPES.values()),
        replies={304: ()},
        refusals=f"{BY_PLACE} file_unknown",
    ),
)
