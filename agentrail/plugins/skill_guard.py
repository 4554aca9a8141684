"""`SkillGuard`: which skill is open, and that while it is, only the tools that it allows run."""

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
    """What skills allow.

    Attributes:
        allowed: Rules of tools by skill, None for all tools; as pairs, so that the order is theirs.
        active: The skills that the session has in use, whatever is opened.
        enforce_mode: Whether other tools are refused, or only reported.
        denied: Rules of tools that may not be used with a skill, as pairs too.
        opened: The skill that the model has opened; closed when the cycle ends.
    """

    allowed: tuple[tuple[str, SkillRules | None], ...]
    active: tuple[str, ...]
    enforce_mode: EnforceMode
    denied: tuple[tuple[str, SkillRules], ...] = ()
    opened: str | None = None

    @property
    def in_use(self) -> tuple[str, ...]:
        """The skills that count now."""
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
        """Take the tools of each skill, as rules of permissions or None for all, and which skills are in use.

        Raises:
            ValueError: Your move: an unknown mode, or an active skill that is not among the skills.
            OptionError: Your move: a rule that cannot be read.
        """
        known = dict(skills or {})
        unknown = [name for name in active if name not in known]
        if unknown:
            message = f"active names {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, known)) or 'no skills'}"
            raise ValueError(message)
        if enforce_mode not in _MODES:
            message = f"enforce_mode is one of {', '.join(map(repr, _MODES))}, got {enforce_mode!r}"
            raise ValueError(message)
        allowed = tuple((name, None if tools is None else tuple(tools)) for name, tools in known.items())
        refused = tuple((name, tuple(tools)) for name, tools in (denied or {}).items())
        for _, tools in (*allowed, *refused):
            _policy((), tools or ())  # a rule that cannot be read is refused now, and not by the first call
        return Skills(allowed=allowed, active=tuple(active), enforce_mode=enforce_mode, denied=refused)

    def on_config_update(self, options: JsonObject, state: Skills) -> Skills:
        """Activate other skills, or change what they allow; what is not named stays, and so does what is open."""
        lists = {"skills": dict(state.allowed), "denied": dict(state.denied)}
        now: dict[str, Any] = {"active": state.active, "enforce_mode": state.enforce_mode, **lists}
        made = self.init(**{**now, **options})
        return attrs.evolve(made, opened=state.opened if state.opened in dict(made.allowed) else None)

    @on(BeforeTool)
    def check(self, event: BeforeTool, skills: Skills, ctx: Context) -> Action[Skills]:
        """Look whether an active skill allows the tool. Without an active skill nothing is restricted."""
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
        why = f"Not run: {event.name!r} is no tool of the active skills ({active}). Tools: {may}."
        return BlockTool(why, skills)

    @on(AfterTool)
    def open(self, event: AfterTool, skills: Skills, ctx: Context) -> Action[Skills]:
        """Open what a call of `skill` has opened: from here on, in the middle of a cycle, its tools count."""
        name = opened_by(event)
        if name is None or name == skills.opened or name not in dict(skills.allowed):
            return Continue(skills)
        details: Any = event.result.details
        said = SkillOpened(name=name, digest=str(details.get("digest", "")), call_id=event.call_id)
        return Continue(attrs.evolve(skills, opened=name), emits=(*_closing(skills), said))

    @on(AfterTurn)
    def close(self, event: AfterTurn, skills: Skills, ctx: Context) -> Action[Skills]:
        """Close what is open, at the end of the cycle."""
        return Continue(attrs.evolve(skills, opened=None), emits=_closing(skills))


def _looks_at_skills(event: BeforeTool, skills: Skills) -> bool:
    """Say whether a call only looks at skills, which none of them forbids: it opens, it searches, or it reads a file of one."""
    if event.name in SKILL_TOOLS:
        return True
    path = event.arguments.get("path") if event.name == "read_file" else None
    if not isinstance(path, str) or not path.startswith(SKILLS_MOUNT):
        return False
    name, *parts = path.removeprefix(SKILLS_MOUNT).split("/")
    return name in dict(skills.allowed) and ".." not in parts


def opened_by(event: AfterTool) -> str | None:
    """Say which skill a call has opened for the session; None for any other call, and where a sub-agent worked by it."""
    details: Any = event.result.details
    is_one = event.name == "skill" and not event.result.is_error and isinstance(details, Mapping)
    return name if is_one and isinstance(name := details.get("opened"), str) else None


def _closing(skills: Skills) -> tuple[Emitted, ...]:
    return () if skills.opened is None else (SkillClosed(name=skills.opened),)


@lru_cache(maxsize=256)
def _policy(allowed: SkillRules, denied: SkillRules) -> PermissionPolicy:
    return PermissionPolicy(modes=("strict",), allow=rules(*allowed), deny=rules(*denied))
