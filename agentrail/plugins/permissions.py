"""`Permissions`: what runs, what a person is asked about and what does not run, by rules that people write."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.actions import Action, BlockTool, Continue, RequireApproval
from agentrail.core.protocol.hooks import AfterTool, BeforeRequest, BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.events.values import PERMISSION_OPTIONS, PermissionOption
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.permission_always import offers_always, proposed_rules
from agentrail.plugins.permission_policy import PURE_TOOLS, PolicyMode
from agentrail.plugins.permission_rules import RuleScope
from agentrail.plugins.permission_state import Permitted, begin, go_on_with
from agentrail.plugins.permission_verdict import EXIT_PLAN, PermissionCall, judge

MODE_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "plan": (
            "# Mode: plan\nOnly look, and change nothing: calls that change something are refused. Find out what there is, then write a plan "
            "and hand it in with exit_plan; a person approves it, and then you carry it out."
        ),
        "strict": (
            "# Mode: strict\nWhat no rule allows is refused, and no person is asked. Work with what is allowed, and say what was not possible."
        ),
        "dont_ask": (
            "# Mode: dont_ask\nNo person is there to be asked: what would need a person's word is refused. Work with what is allowed, and say "
            "what was not possible."
        ),
    }
)
"""What the model is told of a mode; of the others it has to know nothing."""


class Permissions(Plugin[Permitted]):
    """Lets calls run, asks a person about them, or refuses them, by rules: deny, then ask, then allow, then the mode."""

    priority = 5

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
        timeout_seconds: float = 120,
        dangerously_bypass_permissions: bool = False,
    ) -> Permitted:
        """Take the rules of the session, those of other scopes, and of the sessions above.

        Raises:
            OptionError: Your move: a rule that cannot be read, an unknown mode or scope, or `bypass` without the option for it.
            ValueError: Your move: a negative timeout.
        """
        return begin(
            own={"mode": mode, "deny": deny, "ask": ask, "allow": allow},
            scopes=scopes or {},
            within=within,
            rest=Permitted(
                home=home,
                timeout_seconds=float(timeout_seconds),
                may_bypass=dangerously_bypass_permissions,
                pure_tools=tuple(dict.fromkeys((*PURE_TOOLS, *pure_tools))),
            ),
        )

    def on_config_update(self, options: JsonObject, state: Permitted) -> Permitted:
        """Change what the session says, as it names it. Rules of other scopes stay, and may not be changed from here."""
        return go_on_with(options, state)

    @on(BeforeRequest)
    def tell(self, event: BeforeRequest, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Say what the mode means for the model, in the system prompt; each time, as another plugin's `Skip` may have taken it back."""
        return Continue(state, context={"mode": MODE_TEXTS.get(state.policy.mode)})

    @on(BeforeTool)
    def judge(self, event: BeforeTool, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Say what becomes of a call."""
        call = PermissionCall(
            tool=event.name, arguments=event.arguments, working_dir=ctx.working_dir, home=state.home
        )
        verdict = judge(state.policy, call)
        if verdict.decision == "allow":
            return Continue(state)
        if verdict.decision == "deny":
            return BlockTool(f"Not run: {verdict.why}", state)
        proposed = proposed_rules(call, verdict)
        asked = {"call_id": event.call_id, "tool": event.name, "why": verdict.why, "always": list(proposed)}
        return RequireApproval(
            verdict.why,
            state,
            expires_seconds=state.timeout_seconds,
            permission_options=_answers(call, proposed),
            emits=(("permission_asked", asked),),
        )

    @on(AfterTool)
    def leave_plan(self, event: AfterTool, state: Permitted, ctx: Context) -> Action[Permitted]:
        """Go back to the mode of before, once a plan is approved."""
        if event.name != EXIT_PLAN or state.own.mode != "plan" or event.result.is_error:
            return Continue(state)
        left = state.in_mode(state.before, before=None)
        return Continue(
            left, emits=(("plan_approved", {"call_id": event.call_id, "mode": left.policy.mode}),)
        )


def _answers(call: PermissionCall, proposed: tuple[str, ...]) -> tuple[PermissionOption, ...]:
    """Leave out `always` where it would allow more than the narrowest rule; a plan is approved or not, as it stands."""
    if call.tool == EXIT_PLAN:
        return ("approve", "reject")
    if offers_always(call, proposed):
        return PERMISSION_OPTIONS
    return tuple(option for option in PERMISSION_OPTIONS if option != "always")
