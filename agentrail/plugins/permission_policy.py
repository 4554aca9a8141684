"""A permission policy: calls that run without approval, and calls that never run. Policies can be joined and intersected."""

# not compiled: values computed once from a policy are kept in a slot that attrs creates

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from agentrail.plugins.permission_rules import (
    ListName,
    RuleIndex,
    RuleScope,
    check_rules,
    read_permission_rule,
    refuse_faults,
)

PolicyMode: TypeAlias = Literal["dont_ask", "strict", "plan", "default", "accept_edits", "bypass"]
MODES: Final[tuple[PolicyMode, ...]] = get_args(PolicyMode)
"""From the narrowest to the widest."""

LISTS: Final[tuple[ListName, ...]] = ("deny", "ask", "allow")
RULE_SCOPES: Final[tuple[RuleScope, ...]] = ("managed", "user", "project", "session")
PURE_TOOLS: Final = (
    "glob", "grep", "kb_list", "kb_read", "kb_search", "list_dir", "read_file", "recall", "shell_output", "sleep",
)  # fmt: skip
"""The built-in tools without effects."""

_DEFAULT: Final = MODES.index("default")


@attrs.frozen
class WrittenRule:
    text: str
    scope: RuleScope = "session"
    place: str = ""

    @property
    def shown(self) -> str:
        return f"{self.text} ({self.place or self.scope})"


@attrs.frozen(kw_only=True)
class PermissionPolicy:
    """A permission policy. Always valid: an unreadable rule prevents its creation.

    Attributes:
        modes: Used if no rule matches. If there are several, the strictest answer counts.
        within: Policies that also judge each call. The strictest verdict wins.
        ends_plan: Whether an approved plan ends the mode `plan`. Otherwise the model is told only to look, without a plan.

    Raises:
        OptionError: Your move: an unreadable rule or an unknown mode. Lists all faults, each with list, index, and position.
    """

    modes: tuple[PolicyMode, ...] = ("default",)
    deny: tuple[WrittenRule, ...] = ()
    ask: tuple[WrittenRule, ...] = ()
    allow: tuple[WrittenRule, ...] = ()
    pure_tools: tuple[str, ...] = PURE_TOOLS
    within: tuple["PermissionPolicy", ...] = ()
    ends_plan: bool = True

    def __attrs_post_init__(self) -> None:
        faults = [
            f"modes: expected some of {', '.join(MODES)}, got {mode!r:.80}"
            for mode in self.modes
            if mode not in MODES
        ]
        if not self.modes:
            faults.append(f"modes: expected at least one of {', '.join(MODES)}")
        for name in LISTS:
            written: tuple[WrittenRule, ...] = getattr(self, name)
            faults += check_rules(name, [rule.text for rule in written], [rule.place for rule in written])
        refuse_faults(faults)

    @property
    def mode(self) -> PolicyMode:
        return min(self.modes, key=MODES.index)

    @property
    def indexes(self) -> tuple[RuleIndex, RuleIndex, RuleIndex]:
        return self._indexes

    # Stored under a name with an underscore, which a codec leaves out.
    @cached_property
    def _indexes(self) -> tuple[RuleIndex, RuleIndex, RuleIndex]:
        deny, ask, allow = (
            RuleIndex(read_permission_rule(rule.text) for rule in getattr(self, name)) for name in LISTS
        )
        return deny, ask, allow


def rules(*texts: str, scope: RuleScope = "session", place: str = "") -> tuple[WrittenRule, ...]:
    return tuple(WrittenRule(text, scope, place) for text in texts)


@attrs.frozen(kw_only=True)
class ScopedRules:
    """The permissions of one file or one caller.

    Attributes:
        mode: Its mode. None if it sets none.
        is_trusted: For a project: whether the user trusts it. An untrusted project can only restrict permissions.
    """

    mode: PolicyMode | None = None
    deny: tuple[WrittenRule, ...] = ()
    ask: tuple[WrittenRule, ...] = ()
    allow: tuple[WrittenRule, ...] = ()
    ceiling: PolicyMode | None = None
    is_trusted: bool = True


def read_scope(
    scope: RuleScope,
    table: Mapping[str, Any],
    *,
    places: Mapping[str, Sequence[str]] = MappingProxyType({}),
    is_trusted: bool = True,
) -> ScopedRules:
    known = {"mode", *LISTS, *(("ceiling",) if scope == "managed" else ())}
    unknown = sorted(map(str, set(table) - known))
    faults = [
        *(f"{key}: unknown key; expected some of {', '.join(sorted(known))}" for key in unknown),
        *(
            f"{key}: expected one of {', '.join(MODES)}, got {table[key]!r:.80}"
            for key in ("mode", "ceiling")
            if key in table and key in known and table[key] not in MODES
        ),
    ]
    lists: dict[str, Any] = {}
    for name in LISTS:
        listed = table.get(name, ())
        if not isinstance(listed, str | list | tuple):
            faults.append(f"{name}: expected a list of rules, got {listed!r:.80}")
            continue
        where = places.get(name, ())
        found = check_rules(name, listed, where)
        faults += found
        if not found:
            padded = (*where, *("" for _ in listed))
            lists[name] = tuple(
                WrittenRule(text, scope, place) for text, place in zip(listed, padded, strict=False)
            )
    refuse_faults(faults)
    return ScopedRules(mode=table.get("mode"), ceiling=table.get("ceiling"), is_trusted=is_trusted, **lists)


def join(
    scoped: Mapping[RuleScope, ScopedRules],
    *,
    may_bypass: bool = False,
    pure_tools: Sequence[str] = PURE_TOOLS,
) -> PermissionPolicy:
    """Join several scopes: the lists are concatenated, the narrowest named mode counts, and a ceiling limits all of them."""
    heard = [(scope, scoped[scope]) for scope in RULE_SCOPES if scope in scoped]
    modes = [
        one.mode for scope, one in heard if one.mode is not None and not _is_withheld(scope, one, one.mode)
    ]
    ceilings = [one.ceiling for _, one in heard if one.ceiling is not None]
    if modes and narrowest(modes) == ("bypass",):
        lower = next((ceiling for ceiling in ceilings if ceiling != "bypass"), None)
        if lower is not None:
            refuse_faults([f"mode: 'bypass' is forbidden by a managed file, whose ceiling is {lower!r}"])
        if not may_bypass:
            refuse_faults(
                [
                    "mode: 'bypass' needs --dangerously-bypass-permissions; give the option, or choose another mode"
                ]
            )

    def joined(name: ListName) -> tuple[WrittenRule, ...]:
        said = (one for scope, one in heard if name != "allow" or _is_heard(scope, one))
        return tuple(rule for one in said for rule in getattr(one, name))

    return PermissionPolicy(
        modes=narrowest((*(modes or ("default",)), *ceilings)),
        deny=joined("deny"),
        ask=joined("ask"),
        allow=joined("allow"),
        pure_tools=tuple(pure_tools),
    )


def narrowest(modes: Sequence[PolicyMode]) -> tuple[PolicyMode, ...]:
    """Remove modes implied by a narrower mode. `plan` and `strict` forbid different things, so both stay."""
    first = min(modes, key=MODES.index)
    both = "plan" in modes and first in {"strict", "dont_ask"}
    return (first, "plan") if both else (first,)


def meet(one: PermissionPolicy, other: PermissionPolicy) -> PermissionPolicy:
    """Return the policy that allows only calls allowed by both: for a sub-agent and its parent, or a handover."""
    members = dict.fromkeys((*_flat(one), *_flat(other)))
    first, *others = members
    return attrs.evolve(first, within=tuple(others))


def _flat(policy: PermissionPolicy) -> tuple[PermissionPolicy, ...]:
    return (attrs.evolve(policy, within=()), *policy.within)


def _is_heard(scope: RuleScope, one: ScopedRules) -> bool:
    return scope != "project" or one.is_trusted


def _is_withheld(scope: RuleScope, one: ScopedRules, mode: PolicyMode) -> bool:
    return not _is_heard(scope, one) and MODES.index(mode) > _DEFAULT
