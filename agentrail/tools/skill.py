"""The tools `skill` and `skill_search`, and `read_file` with the files of skills under `/skills/`."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import trio
from attrs import field, frozen

from agentrail.abc import MAX_RESULT_BYTES, Error, Ok, ReadResult, Tool, ToolContext, ToolOutcome
from agentrail.config.skill_set import Skill, SkillFile, SkillSet, ToolsMode, search_skills
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ChildRefused
from agentrail.errors.name_guesses import near_name
from agentrail.messages import JsonObject, JsonValue
from agentrail.tools.read_file import read_file, render_page
from agentrail.tools.skill_files import SkillFileFault, read_skill_file

SKILL_FILE: Final = "SKILL.md"
MAX_DELEGATED_TURNS: Final = 8
MAX_SKILL_READ_BYTES: Final = 8 * 1024 * 1024
_MOUNT: Final = "/skills"
_SHOWN_FILES: Final = 100

_OPEN: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "The name of the skill."},
        "task": {
            "type": ["string", "null"],
            "default": None,
            "description": "The task. Required if a sub-agent works by the skill, because it knows nothing else.",
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
_FIND: Final[JsonObject] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Words; empty for the first skills."}},
    "required": ["query"],
    "additionalProperties": False,
}


@frozen(kw_only=True, eq=False)
class SkillTool:
    """Opens a skill: returns its instructions, or lets a sub-agent follow them."""

    skills: SkillSet
    tools: ToolsMode = "restrict"
    name: str = field(default="skill", init=False)
    description: str = field(
        default="Open a skill: instructions for a kind of work, and files that belong to them. Do so before that work, and follow it.",
        init=False,
    )
    parameters: JsonObject = field(factory=lambda: dict(_OPEN), init=False)
    timeout_seconds: float | None = field(default=600.0, init=False)

    def label(self, arguments: JsonObject) -> str:
        return f"Open the skill {arguments.get('name')!s:.64}"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Return the instructions and the list of files, or the answer of a sub-agent.

        Cancellation: A sub-agent ends with the call.
        """
        await trio.lowlevel.checkpoint()
        name, task = str(arguments["name"]).strip(), str(arguments.get("task") or "").strip()
        skill = self.skills.find(name.removeprefix("/"))
        if skill is None:
            return Error(text=_no_such(name, self.skills))
        if not skill.text.for_model:
            return Error(
                text=f"The skill {name!r} is for the user to open, not for you. Continue without it."
            )
        if skill.text.delegates:
            return await self._delegated(skill, task, ctx)
        parts = [
            skill.text.instructions,
            _listed_files(skill),
            f"The task: {task}" if task else "",
        ]
        return Ok(
            text="\n\n".join(part for part in parts if part) or "[The skill has no instructions.]",
            details={"opened": skill.name, "digest": skill.digest, "source": skill.source},
        )

    async def _delegated(self, skill: Skill, task: str, ctx: ToolContext) -> ToolOutcome:
        if not task:
            return Error(
                text=f"The skill {skill.name!r} is followed by a sub-agent, which knows nothing else: describe the work in `task`."
            )
        instructions = "\n\n".join(filter(None, (skill.text.instructions, _listed_files(skill))))
        wanted, known = skill.text.agent, dict(ctx.agents)
        agent = wanted if wanted in known else None
        # An agent keeps its own system prompt, so the instructions are placed before its task.
        prompt = task if agent is None else f"{instructions or skill.description}\n\nThe task: {task}"
        try:
            answer = await ctx.run_session(
                prompt,
                system_prompt=(instructions or skill.description) if agent is None else None,
                tools=_tools_of_child(skill, self.tools, ctx, agent),
                max_turns=MAX_DELEGATED_TURNS,
                agent=agent,
            )
        except ChildRefused as error:
            return Error(text=f"The skill {skill.name!r} could not be followed: {error}")
        details: dict[str, JsonValue] = {"delegated": skill.name, "digest": skill.digest}
        if agent is not None:
            details["agent"] = agent
        return Ok(text=answer or "[It ended without an answer.]", details=details)


def _tools_of_child(
    skill: Skill, mode: ToolsMode, ctx: ToolContext, agent: str | None = None
) -> tuple[str, ...] | None:
    """Return the tools of a sub-agent. None: all of its agent's or session's tools."""
    text = skill.text
    refused = {rule for rule in text.disallowed if "(" not in rule}
    is_held = text.allowed is not None and (
        mode == "restrict" or (mode == "approve" and not skill.is_trusted)
    )
    if not is_held and not text.disallowed:
        return None
    known = ctx.tools if agent is None else ctx.agent_tools.get(agent, ctx.tools)
    allowed = set(text.allowed or ()) | {"read_file"} if is_held else set(known)
    narrowed = {rule.partition("(")[0] for rule in text.disallowed}
    return tuple(name for name in known if name in allowed and name not in refused | narrowed)


@frozen(kw_only=True, eq=False)
class SkillSearch:
    skills: SkillSet
    name: str = field(default="skill_search", init=False)
    description: str = field(
        default="Find skills by words in their names and descriptions; there may be more than the system prompt lists.",
        init=False,
    )
    parameters: JsonObject = field(factory=lambda: dict(_FIND), init=False)
    effect_class: EffectClass = field(default="pure", init=False)

    def label(self, arguments: JsonObject) -> str:
        return f"Look for a skill: {arguments.get('query')!s:.60}"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        await trio.lowlevel.checkpoint()
        offered = tuple(one for one in self.skills.skills if one.text.for_model)
        found = search_skills(offered, str(arguments["query"]))
        if not found:
            return Ok(
                text=f"None of the {len(offered)} skills has these words. Try others, or continue without a skill."
            )
        return Ok(text="\n".join(f"- {one.name}: {one.description}" for one in found))


_OPTIONAL: Final[Mapping[str, object]] = MappingProxyType(
    {
        "killable": True,
        "timeout_seconds": None,
        "max_retries": None,
        "polling": False,
        "max_result_bytes": MAX_RESULT_BYTES,
        "threaded": False,
        "wants_deps": None,
        "comes_from": None,
    }
)
"""Optional members that `MountedReadFile` has in common with the wrapped tool, with their defaults."""


@frozen(kw_only=True, eq=False)
class MountedReadFile:
    """`read_file` with the files of skills under `/skills/`. All other paths are passed to the wrapped tool.

    Attributes:
        inner: The wrapped tool. None: only files of skills can be read.
    """

    skills: SkillSet
    inner: Tool | None = None
    name: str = field(default="read_file", init=False)

    def __getattr__(self, member: str) -> Any:
        """Return an optional member of the wrapped tool, or its default."""
        if member not in _OPTIONAL:
            message = f"{type(self).__name__!r} object has no attribute {member!r}"
            raise AttributeError(message, name=member, obj=self)
        return getattr(self.inner, member, _OPTIONAL[member])

    @property
    def effect_class(self) -> EffectClass:
        default: EffectClass = "pure" if self.inner is None else "once"
        promised: EffectClass = getattr(self.inner, "effect_class", default)
        return "once" if promised == "reconcilable" else promised

    @property
    def description(self) -> Any:
        own = "Read a text file of a skill." if self.inner is None else self.inner.description
        if callable(own):
            return lambda listing: _with_mount(own(listing))
        return _with_mount(own)

    @property
    def parameters(self) -> JsonObject:
        return (read_file if self.inner is None else self.inner).parameters

    def label(self, arguments: JsonObject) -> str:
        path = str(arguments.get("path"))
        own = getattr(self.inner, "label", None)
        return str(own(arguments)) if own is not None and not _is_mounted(path) else f"Read {path:.200}"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        await trio.lowlevel.checkpoint()
        path = str(arguments["path"])
        if _is_mounted(path):
            offset, limit = int(arguments.get("offset") or 1), arguments.get("limit")  # type: ignore[arg-type]  # as the schema says
            lines = None if limit is None else int(limit)  # type: ignore[arg-type]  # as the schema says
            return await self._of_skill(path, offset, lines, ctx)
        if self.inner is None:
            return Error(text=f"Only files of skills are read here, below {_MOUNT}/; got {path!r:.200}.")
        return await self.inner.execute(arguments, ctx)

    async def _of_skill(self, path: str, offset: int, limit: int | None, ctx: ToolContext) -> ToolOutcome:
        name, _, below = path.removeprefix(_MOUNT).strip("/").partition("/")
        skill = self.skills.find(name)
        if skill is None:
            return Error(text=_no_such(name, self.skills))
        # Only files listed when the skill was read: a name that leads elsewhere is not among them.
        file = next((one for one in skill.files if one.path == below), None)
        if file is None:
            listed = _listed_files(skill) or "It has no files."
            return Error(text=f"The skill {name!r} has no file {below!r:.200}. {listed}")
        try:
            data = await ctx.run_in_thread(partial(_read, skill, file), abandonable=True)
            text = data.decode()
        except SkillFileFault as fault:
            return Error(text=f"{fault}.")
        except UnicodeDecodeError:
            return Error(text=f"{path} is not text: it cannot be shown.")
        lines = text.removesuffix("\n").split("\n") if text else []
        end = len(lines) if limit is None else offset - 1 + limit
        page = "\n".join(lines[offset - 1 : end])
        return render_page(ReadResult(text=page, total_lines=len(lines)), offset=offset)


def _is_mounted(path: str) -> bool:
    return path == _MOUNT or path.startswith(f"{_MOUNT}/")


def _read(skill: Skill, file: SkillFile) -> bytes:
    data = read_skill_file(skill.directory, file.path, most=MAX_SKILL_READ_BYTES)
    # The model reads only content that the skill's id covers and that was trusted.
    if hashlib.sha256(data).hexdigest() != file.digest:
        message = f"{file.path} has changed since the skill was read: a new session reads the current version"
        raise SkillFileFault(message)
    return data


def without_skills(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    kept: list[Tool] = []
    for tool in tools:
        plain = tool.inner if isinstance(tool, MountedReadFile) else tool
        if plain is not None and not isinstance(plain, SkillTool | SkillSearch):
            kept.append(plain)
    return tuple(kept)


def mount_skills(tools: tuple[Tool, ...], skills: SkillSet) -> tuple[Tool, ...]:
    """Return tools whose `read_file` also reads the files of skills. Without one, add one that reads nothing else."""
    own = next((tool for tool in tools if tool.name == "read_file"), None)
    if not any(one.files for one in skills.skills) or getattr(own, "answered_by", "code") != "code":
        return tools
    if own is None:
        return (*tools, MountedReadFile(skills=skills))
    return tuple(MountedReadFile(skills=skills, inner=tool) if tool is own else tool for tool in tools)


def prompt_of_skill(skill: Skill, arguments: str) -> str:
    """Return the prompt for a skill that a user names as `/name`, followed by text."""
    if not skill.text.for_model:
        return "\n\n".join(filter(None, (skill.text.instructions, _listed_files(skill), arguments.strip())))
    said = f"Open the skill {skill.name!r} with the tool `skill`, and do what it says."
    return f"{said}\n\n{arguments.strip()}" if arguments.strip() else said


def _with_mount(text: str) -> str:
    return f"{text} Files of skills are below {_MOUNT}/, as `skill` lists them."


def _listed_files(skill: Skill) -> str:
    files = [file for file in skill.files if file.path != SKILL_FILE]
    if not files:
        return ""
    lines = [f"- {_MOUNT}/{skill.name}/{file.path} ({file.size:,} bytes)" for file in files[:_SHOWN_FILES]]
    left = len(files) - len(lines)
    more = [f"- and {left} more"] if left else []
    return "\n".join(("Its files, for read_file:", *lines, *more))


def _no_such(name: str, skills: SkillSet) -> str:
    known = [one.name for one in skills.skills if one.text.for_model]
    guess = near_name(name, known, "Did you mean {!r}?", "Look with skill_search.")
    return f"There is no skill {name!r:.80}. {guess}"
