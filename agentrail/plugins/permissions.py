"""`Permissions`: allows calls, asks the user about them, or refuses them, by rules that users write."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentrail.core.protocol import actions
from agentrail.core.protocol.actions import Action, BlockTool, Continue, RequireApproval
from agentrail.core.protocol.hooks import AfterTool, AfterTurn, BeforeRequest, BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.permission_always import answers_to_offer, proposed_rules
from agentrail.plugins.permission_modes import text_of_mode
from agentrail.plugins.permission_policy import PURE_TOOLS, PolicyMode
from agentrail.plugins.permission_rules import PATH_TOOLS, RuleScope
from agentrail.plugins.permission_state import Permitted, begin, go_on_with, narrowed
from agentrail.plugins.permission_verdict import EXIT_PLAN, judge, offered, reason_for, refusal_of_end
from agentrail.plugins.skill_guard import opened_by


class Permissions(Plugin[Permitted]):
    """Allows, asks about or refuses calls, by rules: deny, then ask, then allow, then the mode."""

    priority = 5
    sections: tuple[str, ...] = ("mode",)

    def init(  # noqa: PLR0913 - one option per part of a policy, each with a default
        self,
        *,
        mode: PolicyMode | None = None,
        deny: Sequence[str] = (),
        ask: Sequence[str] = (),
        allow: Sequence[str] = (),
        scopes: Mapping[RuleScope, Mapping[str, Any]] | None = None,
        within: Sequence[Mapping[str, Any]] = (),
        pure_tools: Sequence[str] = (),
        home: str = "",
        timeout_seconds: float | None = None,
        dangerously_bypass_permissions: bool = False,
        skills: Mapping[str, Sequence[str]] | None = None,
    ) -> Permitted:
        """Set the rules of the session, of other scopes, of the sessions above, and of skills while they are open.

        Omit `timeout_seconds`: the session's `approval_timeout_seconds` is the deadline. It is kept for options in older journals.

        Raises:
            OptionError: Your move: an unreadable rule, an unknown mode or scope, or `bypass` without the option for it.
            ValueError: Your move: a negative timeout.
        """
        return begin(
            own={"mode": mode, "deny": deny, "ask": ask, "allow": allow},
            scopes=scopes or {},
            within=within,
            rest=Permitted(
                home=home,
                timeout_seconds=None if timeout_seconds is None else float(timeout_seconds),
                may_bypass=dangerously_bypass_permissions,
                pure_tools=tuple(dict.fromkeys((*PURE_TOOLS, *pure_tools))),
                skills=tuple((name, tuple(tools)) for name, tools in (skills or {}).items()),
            ),
        )

    def on_config_update(self, options: JsonObject, state: Permitted) -> Permitted:
        """Change the named permissions of the session. Rules of other scopes stay, and cannot be changed here."""
        return go_on_with(options, state)

    @on(BeforeRequest)
    def tell(self, event: BeforeRequest, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Explain the mode in the system prompt, with each request, because a `Skip` of another plugin may have removed it."""
        return Continue(state, context={"mode": text_of_mode(state.policy, ctx.tools)})

    def options_now(self, options: JsonObject, state: Permitted) -> JsonObject:
        """Return the current options: a plan that was approved is no longer in effect."""
        return state.options_now(options)

    def options_below(self, options: JsonObject, state: Permitted) -> JsonObject:
        """Return the options for a session below. During a plan it only looks, and no plan of its own ends that."""
        return state.options_below(options)

    def narrow_permissions(
        self, options: JsonObject, state: Permitted, permissions: JsonObject
    ) -> tuple[JsonObject, Permitted]:
        """Restrict the permissions to calls that these permissions also allow.

        Raises:
            OptionError: Your move: an unknown key or mode, or an unreadable rule.
        """
        return narrowed(options, state, permissions)

    def hidden_tools(self, state: Permitted, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tools that a rule denies for all arguments: they are hidden from the model."""
        return tuple(sorted({*names} - {*offered(state.policy, names)}, key=names.index))

    def always_rules(
        self, state: Permitted, name: str, arguments: JsonObject, working_dir: str
    ) -> tuple[str, ...]:
        """Return the narrowest rules that would allow a call that needs approval. Empty if no rule is allowed for it."""
        call = state.call(name, arguments, working_dir)
        return proposed_rules(call, judge(state.policy, call))

    def path_of(self, name: str, arguments: JsonObject) -> str | None:
        """Return the path that a call is about. None if it has none."""
        path = arguments.get("path") if name in PATH_TOOLS else None
        return path if isinstance(path, str) else None

    def refusal_of_end(
        self, state: Permitted, name: str, arguments: JsonObject, working_dir: str, end: str
    ) -> str | None:
        """Return why a call is refused whose path leads elsewhere by links, if the target is judged more strictly."""
        call = state.call(name, arguments, working_dir)
        return refusal_of_end(state.policy, call, end)

    @on(BeforeTool)
    def judge(self, event: BeforeTool, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Judge a call."""
        call = state.call(event.name, event.arguments, ctx.working_dir)
        verdict = judge(state.policy, call)
        if verdict.decision == "allow":
            return Continue(state)
        if verdict.decision == "deny":
            return BlockTool(f"Not run: {reason_for(verdict, ctx.tools)}", state)
        proposed = proposed_rules(call, verdict)
        asked = {"call_id": event.call_id, "tool": event.name, "why": verdict.why, "always": list(proposed)}
        return RequireApproval(
            verdict.why,
            state,
            expires_seconds=state.timeout_seconds,
            former_expires_seconds=actions.FORMER_APPROVAL_SECONDS,
            permission_options=answers_to_offer(call, proposed),
            emits=(("permission_asked", asked),),
        )

    @on(AfterTool)
    def leave_plan(self, event: AfterTool, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Return to the earlier mode once a plan is approved, and apply the rules of a skill once it is open."""
        opened = opened_by(event)
        if opened is not None:
            return Continue(attrs.evolve(state, opened=opened))
        if event.name != EXIT_PLAN or not state.may_end_plan or event.result.is_error:
            return Continue(state)
        left = state.without_plan()
        approved = {"call_id": event.call_id, "mode": left.policy.mode}
        return Continue(left, emits=(("plan_approved", approved),))

    @on(AfterTurn)
    def close_skill(self, event: AfterTurn, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Stop applying the rules of an open skill."""
        return Continue(state if state.opened is None else attrs.evolve(state, opened=None))
