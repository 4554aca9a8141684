"""The state of `Permissions`: the rules of each scope, and the resulting policy."""

# not compiled: the policy is kept in a slot that attrs creates

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast

import attrs

from agentrail.errors import OptionError
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject
from agentrail.plugins.permission_policy import (
    LISTS,
    PURE_TOOLS,
    PermissionPolicy,
    PolicyMode,
    ScopedRules,
    join,
    meet,
    read_scope,
    rules,
)
from agentrail.plugins.permission_rules import RuleScope, check_rules, refuse_faults
from agentrail.plugins.permission_verdict import EXIT_PLAN, PermissionCall, judge

_OTHERS: Final = frozenset({"managed", "user", "project"})


@attrs.frozen
class Permitted:
    """The permissions of a session.

    Attributes:
        home: The directory that `~/` means. Empty if unknown.
        timeout_seconds: Time limit for a call to wait for a user. 0 waits for a decision. None uses the session's limit.
    """

    scoped: tuple[tuple[RuleScope, ScopedRules], ...] = ()
    within: tuple[ScopedRules, ...] = ()
    before: PolicyMode | None = None
    home: str = ""
    timeout_seconds: float | None = None
    may_bypass: bool = False
    pure_tools: tuple[str, ...] = PURE_TOOLS
    skills: tuple[tuple[str, tuple[str, ...]], ...] = ()
    opened: str | None = None

    @property
    def policy(self) -> PermissionPolicy:
        return self._policy

    # Stored under a name with an underscore, which the codec leaves out.
    @cached_property
    def _policy(self) -> PermissionPolicy:
        options: Any = {"may_bypass": self.may_bypass, "pure_tools": self.pure_tools}
        scoped = dict(self.scoped)
        also = dict(self.skills).get(self.opened or "", ())
        if also:
            place = f"the open skill {self.opened}"
            own = scoped["session"]
            allow = (*own.allow, *rules(*also, place=place))
            scoped["session"] = attrs.evolve(own, allow=allow)
        found = join(scoped, **options)
        for other in self.within:
            found = meet(found, join({"session": other}, **options))
        if not _is_planning(found) or self._plan_ends(found):
            return found
        judging = tuple(attrs.evolve(one, ends_plan=False) for one in found.within)
        return attrs.evolve(found, ends_plan=False, within=judging)

    def _plan_ends(self, policy: PermissionPolicy) -> bool:
        """Return whether an approved plan ends the mode. Not if a managed file or a session above sets it, or plans need no approval."""
        managed = dict(self.scoped).get("managed")
        held = {managed.mode, managed.ceiling} if managed is not None else set()
        if "plan" in held | {one.mode for one in self.within}:
            return False
        return judge(policy, PermissionCall(tool=EXIT_PLAN, arguments={})).decision != "deny"

    @property
    def own(self) -> ScopedRules:
        return dict(self.scoped)["session"]

    @property
    def may_end_plan(self) -> bool:
        return _is_planning(self.policy) and self.policy.ends_plan

    def without_plan(self) -> "Permitted":
        """Return the state with the mode before `plan`: the session's own earlier mode, or the other modes named by files."""
        scoped = [(scope, self._after_plan(scope, one)) for scope, one in self.scoped]
        return attrs.evolve(self, scoped=tuple(scoped), before=None)

    def options_now(self, options: JsonObject) -> JsonObject:
        """Return options for a session with the current permissions: the modes may have changed since the start."""
        scoped = dict(self.scoped)
        tables = cast("Mapping[RuleScope, Mapping[str, Any]]", options.get("scopes") or {})
        scopes: Any = {scope: _in_mode(table, scoped[scope].mode) for scope, table in tables.items()}
        now = _in_mode(options, self.own.mode)
        return frozen_json({**now, "scopes": scopes} if scopes else now)

    def options_below(self, options: JsonObject) -> JsonObject:
        """Return options for a session that works for this one: during a plan it only looks, and makes no plan of its own."""
        if not self.may_end_plan:
            return self.options_now(options)
        now = self.without_plan().options_now(options)
        planning: Any = [*cast("Sequence[Any]", now.get("within", ())), {"mode": "plan"}]
        return frozen_json({**now, "within": planning})

    def call(self, tool: str, arguments: JsonObject, working_dir: str) -> PermissionCall:
        return PermissionCall(tool=tool, arguments=arguments, working_dir=working_dir, home=self.home)

    def _after_plan(self, scope: RuleScope, said: ScopedRules) -> ScopedRules:
        mode = said.mode
        if mode == "plan":
            mode = self.before if scope == "session" else None
        # During a plan, `bypass` was not in effect, so it was not refused at the start of the session.
        is_wide = mode == "bypass" and (
            not self.may_bypass or any(one.ceiling is not None for _, one in self.scoped)
        )
        return attrs.evolve(said, mode=None if is_wide else mode)


def begin(
    *,
    own: Mapping[str, Any],
    scopes: Mapping[RuleScope, Mapping[str, Any]],
    within: Sequence[Mapping[str, Any]],
    rest: Permitted,
) -> Permitted:
    unknown = sorted(set(scopes) - _OTHERS)
    if unknown:
        raise OptionError(
            [f"scopes must be some of {', '.join(sorted(_OTHERS))}; got {', '.join(map(repr, unknown))}"]
        )
    if rest.timeout_seconds is not None and rest.timeout_seconds < 0:
        raise OptionError([f"timeout_seconds must be 0 (no limit) or more; got {rest.timeout_seconds!r}"])
    others = tuple((scope, read_scope(scope, table)) for scope, table in scopes.items())
    named = {key: value for key, value in own.items() if key != "mode" or value is not None}
    above = tuple(read_scope("session", table) for table in within)
    return _checked(
        attrs.evolve(rest, scoped=(*others, ("session", read_scope("session", named))), within=above)
    )


def go_on_with(options: JsonObject, state: Permitted) -> Permitted:
    other = sorted(set(options) - {"mode", *LISTS})
    if other:
        message = (
            f"a running session can change only mode, {', '.join(LISTS)}; got {', '.join(map(repr, other))}"
        )
        raise OptionError([message])
    now: dict[str, Any] = {name: [rule.text for rule in getattr(state.own, name)] for name in LISTS}
    if state.own.mode is not None:
        now["mode"] = state.own.mode
    own = read_scope("session", {**now, **options})
    # A new plan returns to the mode before the first one.
    before = (state.before if state.own.mode == "plan" else state.own.mode) if own.mode == "plan" else None
    scoped = tuple((scope, own if scope == "session" else one) for scope, one in state.scoped)
    return _checked(attrs.evolve(state, scoped=scoped, before=before))


def _in_mode(table: Mapping[str, Any], mode: PolicyMode | None) -> dict[str, Any]:
    said = {key: value for key, value in table.items() if key != "mode"}
    return said if mode is None else {**said, "mode": mode}


def _is_planning(policy: PermissionPolicy) -> bool:
    """Return whether a mode of a policy, or of a policy that also judges, is `plan`."""
    return any("plan" in one.modes for one in (policy, *policy.within))


def unlimited_options(home: str) -> JsonObject:
    """Return unrestricted options, for an agent whose session has no such plugin. Later narrowing is then the only limit."""
    return frozen_json({"mode": "bypass", "dangerously_bypass_permissions": True, "home": home})


def narrowed(options: JsonObject, state: Permitted, permissions: JsonObject) -> tuple[JsonObject, Permitted]:
    """Return the intersection of the session's and the agent's permissions. Unset parts of the agent's come from the session."""
    said = read_scope("session", permissions)
    policy = state.policy
    # An agent without rules of `allow` gets those of the session. Named rules apply only where the session has them too.
    allow = said.allow or policy.allow
    # `bypass` narrows nothing, and only the caller that starts the session may set it. In it, rules of `allow` have no meaning.
    unsaid: PolicyMode = "default" if said.allow and policy.mode == "bypass" else policy.mode
    mode = unsaid if said.mode in {None, "bypass"} else said.mode
    lists = {"deny": said.deny, "ask": said.ask, "allow": allow}
    table = frozen_json(
        {"mode": mode, **{name: [rule.text for rule in found] for name, found in lists.items() if found}}
    )
    given: list[Any] = [*cast("Sequence[Any]", options.get("within", ()))]
    if table in given:
        return options, state
    own = read_scope("session", table)
    given_now: Any = [*given, table]
    return (
        frozen_json({**options, "within": given_now}),
        attrs.evolve(state, within=(*state.within, own)),
    )


def _checked(state: Permitted) -> Permitted:
    _ = state.policy  # refuse a forbidden mode now rather than at the first call
    for _name, allowed in state.skills:
        refuse_faults(check_rules("allow", allowed))
    return state
