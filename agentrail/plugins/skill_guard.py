"""`SkillGuard`: while a skill is open, only the tools that it allows run."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from agentrail.core.protocol.actions import Action, BlockTool, Continue, Emitted
from agentrail.core.protocol.hooks import AfterTool, AfterTurn, BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.events import SkillClosed, SkillOpened
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.permission_policy import PermissionPolicy, rules
from agentrail.plugins.permission_verdict import PermissionCall, judge

EnforceMode: TypeAlias = Literal["strict", "warn"]
_MODES: Final = get_args(EnforceMode)

SKILL_TOOLS: Final = frozenset({"skill", "skill_search"})
SKILLS_MOUNT: Final = "/skills/"
SkillRules: TypeAlias = tuple[str, ...]


@attrs.frozen
class Skills:
    """The permissions of skills.

    Attributes:
        allowed: Rules of tools by skill, None for all tools. Pairs, to keep their order.
        denied: Rules of tools that must not be used with a skill, also as pairs.
    """

    allowed: tuple[tuple[str, SkillRules | None], ...]
    active: tuple[str, ...]
    enforce_mode: EnforceMode
    denied: tuple[tuple[str, SkillRules], ...] = ()
    opened: str | None = None

    @property
    def in_use(self) -> tuple[str, ...]:
        return self.active if self.opened is None else tuple(dict.fromkeys((*self.active, self.opened)))


class SkillGuard(Plugin[Skills]):
    """Lets only those tools run that the active skills allow."""

    priority = 20

    def init(
        self,
        *,
        skills: Mapping[str, Sequence[str] | None] | None = None,
        active: Sequence[str] = (),
        enforce_mode: EnforceMode = "strict",
        denied: Mapping[str, Sequence[str]] | None = None,
    ) -> Skills:
        """Set the tools of each skill, as permission rules or None for all, and the skills in use.

        Raises:
            ValueError: Your move: an unknown mode, or an active skill that is not among the skills.
            OptionError: Your move: an unreadable rule.
        """
        known = dict(skills or {})
        unknown = [name for name in active if name not in known]
        if unknown:
            message = f"active names {', '.join(map(repr, unknown))}; known skills: {', '.join(map(repr, known)) or 'none'}"
            raise ValueError(message)
        if enforce_mode not in _MODES:
            message = f"enforce_mode must be one of {', '.join(map(repr, _MODES))}, got {enforce_mode!r}"
            raise ValueError(message)
        allowed = tuple((name, None if tools is None else tuple(tools)) for name, tools in known.items())
        refused = tuple((name, tuple(tools)) for name, tools in (denied or {}).items())
        for _, tools in (*allowed, *refused):
            _policy((), tools or ())  # refuse an unreadable rule now rather than at the first call
        return Skills(allowed=allowed, active=tuple(active), enforce_mode=enforce_mode, denied=refused)

    def on_config_update(self, options: JsonObject, state: Skills) -> Skills:
        """Activate other skills, or change their tools. Unnamed parts and the open skill stay."""
        lists = {"skills": dict(state.allowed), "denied": dict(state.denied)}
        now: dict[str, Any] = {"active": state.active, "enforce_mode": state.enforce_mode, **lists}
        made = self.init(**{**now, **options})
        return attrs.evolve(made, opened=state.opened if state.opened in dict(made.allowed) else None)

    @on(BeforeTool)
    def check(self, event: BeforeTool, skills: Skills, ctx: Context) -> Action[Skills]:
        """Check whether an active skill allows the tool. Without an active skill, there is no restriction."""
        names = skills.in_use
        if not names or _looks_at_skills(event, skills):
            return Continue(skills)
        lists = [tools for name, tools in skills.allowed if name in names]
        denied = tuple(rule for name, tools in skills.denied if name in names for rule in tools)
        allowed = ("*",) if None in lists else tuple(rule for tools in lists for rule in tools or ())
        call = PermissionCall(tool=event.name, arguments=event.arguments, working_dir=ctx.working_dir)
        if judge(_policy(allowed, denied), call).decision == "allow":
            return Continue(skills)
        active = ", ".join(names)
        if skills.enforce_mode == "warn":
            record = {"tool": event.name, "call_id": event.call_id, "active": list(names)}
            return Continue(skills, emits=(("skill_violation", record),))
        may = ", ".join(allowed) or "none"
        why = f"Not run: {event.name!r} is not a tool of the active skills ({active}). Tools: {may}."
        return BlockTool(why, skills)

    @on(AfterTool)
    def open(self, event: AfterTool, skills: Skills, ctx: Context) -> Action[Skills]:
        """Open the skill of a `skill` call: its tools count from now on, also within the cycle."""
        name = opened_by(event)
        if name is None or name == skills.opened or name not in dict(skills.allowed):
            return Continue(skills)
        details: Any = event.result.details
        said = SkillOpened(name=name, digest=str(details.get("digest", "")), call_id=event.call_id)
        return Continue(attrs.evolve(skills, opened=name), emits=(*_closing(skills), said))

    @on(AfterTurn)
    def close(self, event: AfterTurn, skills: Skills, ctx: Context) -> Action[Skills]:
        """Close the open skill at the end of the cycle."""
        return Continue(attrs.evolve(skills, opened=None), emits=_closing(skills))


def _looks_at_skills(event: BeforeTool, skills: Skills) -> bool:
    """Return whether a call only looks at skills, which is always allowed: it opens, searches, or reads a file of a skill."""
    if event.name in SKILL_TOOLS:
        return True
    path = event.arguments.get("path") if event.name == "read_file" else None
    if not isinstance(path, str) or not path.startswith(SKILLS_MOUNT):
        return False
    name, *parts = path.removeprefix(SKILLS_MOUNT).split("/")
    return name in dict(skills.allowed) and ".." not in parts


def opened_by(event: AfterTool) -> str | None:
    """Return the skill that a call opened for the session. None for other calls, and for a skill used by a sub-agent."""
    details: Any = event.result.details
    is_one = event.name == "skill" and not event.result.is_error and isinstance(details, Mapping)
    return name if is_one and isinstance(name := details.get("opened"), str) else None


def _closing(skills: Skills) -> tuple[Emitted, ...]:
    return () if skills.opened is None else (SkillClosed(name=skills.opened),)


@lru_cache(maxsize=256)
def _policy(allowed: SkillRules, denied: SkillRules) -> PermissionPolicy:
    return PermissionPolicy(modes=("strict",), allow=rules(*allowed), deny=rules(*denied))
