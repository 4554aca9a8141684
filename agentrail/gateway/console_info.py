"""`GET /console/info`: what a console has to know of its server before it draws anything. It tells nothing that other calls would not."""

from collections.abc import Iterable
from typing import Final

from agentrail.core.protocol.request import ModelFacts
from agentrail.gateway.endpoint import CallRoute, RouteCall, WholeAnswer, answer_json
from agentrail.gateway.replies import (
    ConsoleInfo,
    ConsoleLimits,
    ConsoleModel,
    ConsolePrincipal,
    ConsoleProfile,
)
from agentrail.host.host import Host
from agentrail.host.payloads import Principal
from agentrail.host.profiles import AgentProfile, fault_of_profile, models_in
from agentrail.runtime.glancing import model_facts_of
from agentrail.wire.server_frames import PROTOCOL

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
"""What this server has of that which consoles can show; what is not named here, a console hides. In the order in which it came."""

LOOKED_AT: Final = 200
"""Sessions that are looked at for what is known of their models."""


async def _info(call: RouteCall) -> WholeAnswer:  # noqa: ASYNC124 - the handler of a route, which is awaited
    """Describe the server to a console."""
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
    """Name the models of all profiles, with what is known of each from sessions of this caller that are awake.

    Providers are not made for it: that may need keys, and opens connections.
    """
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
