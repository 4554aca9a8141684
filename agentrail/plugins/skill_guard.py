"""`SkillGuard`: while skills are active, only the tools that they allow run."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, get_args

import attrs

from agentrail.core.protocol.actions import Action, BlockTool, Continue
from agentrail.core.protocol.hooks import BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin, on

EnforceMode = Literal["strict", "warn"]
_MODES: Final = get_args(EnforceMode)


@attrs.frozen
class Skills:
    """What skills allow.

    Attributes:
        allowed: Names of tools, or patterns of names, by skill; as pairs, so that the order is theirs.
        active: The skills that are in use.
        enforce_mode: Whether other tools are refused, or only reported.
    """

    allowed: tuple[tuple[str, tuple[str, ...]], ...]
    active: tuple[str, ...]
    enforce_mode: EnforceMode


class SkillGuard(Plugin[Skills]):
    """Lets only those tools run that the active skills allow."""

    priority = 20

    def init(
        self,
        *,
        skills: Mapping[str, Sequence[str]] | None = None,
        active: Sequence[str] = (),
        enforce_mode: EnforceMode = "strict",
    ) -> Skills:
        """Take the tools of each skill, and which skills are in use.

        Raises:
            ValueError: Your move: an unknown mode, or an active skill that is not among the skills.
        """
        known = dict(skills or {})
        unknown = [name for name in active if name not in known]
        if unknown:
            message = f"active names {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, known)) or 'no skills'}"
            raise ValueError(message)
        if enforce_mode not in _MODES:
            message = f"enforce_mode is one of {', '.join(map(repr, _MODES))}, got {enforce_mode!r}"
            raise ValueError(message)
        allowed = tuple((name, tuple(tools)) for name, tools in known.items())
        return Skills(allowed=allowed, active=tuple(active), enforce_mode=enforce_mode)

    def on_config_update(self, options: JsonObject, state: Skills) -> Skills:
        """Activate other skills, or change what they allow; what is not named stays."""
        now = {"skills": dict(state.allowed), "active": state.active, "enforce_mode": state.enforce_mode}
        return self.init(**{**now, **options})  # type: ignore[arg-type]  # `init` judges them

    @on(BeforeTool)
    def check(self, event: BeforeTool, skills: Skills, ctx: Context) -> Action[Skills]:
        """Look whether an active skill allows the tool. Without an active skill nothing is restricted."""
        patterns = [tool for name, tools in skills.allowed if name in skills.active for tool in tools]
        if not skills.active or any(fnmatchcase(event.name, pattern) for pattern in patterns):
            return Continue(skills)
        active = ", ".join(skills.active)
        if skills.enforce_mode == "warn":
            record = {"tool": event.name, "call_id": event.call_id, "active": list(skills.active)}
            return Continue(skills, emits=(("skill_violation", record),))
        may = ", ".join(patterns) or "none"
        return BlockTool(
            f"Not run: {event.name!r} is no tool of the active skills ({active}). Tools: {may}.", skills
        )
