"""The verdict of a policy on a call: `deny`, then `ask`, then `allow`, then the mode. In each list the first match decides."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, TypeAlias

from attrs import evolve, frozen

from agentrail.messages import JsonObject
from agentrail.plugins.permission_match import may_be, may_mean, must_be, must_mean
from agentrail.plugins.permission_paths import PathGlob, PathPlace, is_protected, may_hold, path_place
from agentrail.plugins.permission_policy import LISTS, PermissionPolicy, PolicyMode, WrittenRule
from agentrail.plugins.permission_rules import (
    PATH_TOOLS,
    SHELL_TOOLS,
    WRITERS,
    AnyCall,
    CommandPattern,
    IndexedRule,
    ListName,
    OfTool,
    bare,
)
from agentrail.plugins.shell_plain import NotRead, PlainCommand, PlainLine, PlainReading, read_plain
from agentrail.plugins.shell_wildcards import uncovered_by_star

PermissionDecision: TypeAlias = Literal["allow", "ask", "deny"]
DECISIONS: Final[tuple[PermissionDecision, ...]] = ("allow", "ask", "deny")
"""From the mildest to the strictest."""

EXIT_PLAN: Final = "exit_plan"
_PLANS: Final = frozenset({"write_todos"})
_PLANNING: Final = "in plan mode, calls with effects do not run: finish the plan, and call exit_plan"
_LOOKING: Final = "calls with effects do not run here: look around, and say what you would do"
"""Text for the mode `plan` if nothing ends it, or if no tool can submit a plan."""
_NO_PLAN: Final = "plans cannot be approved here, so calls with effects do not run: say what you would do"
_SHELL_ARGUMENTS: Final = frozenset({"background", "command", "timeout_seconds", "workdir"})
_HERE: Final = (".", "./", "")
_ONLY_HERE: Final = "a rule without a * applies only without a workdir"
_DENY, _ASK, _ALLOW = range(3)


@frozen(kw_only=True)
class PermissionCall:
    """A call to be judged.

    Attributes:
        home: The home, absolute. Empty if unknown.
    """

    tool: str
    arguments: JsonObject
    working_dir: str = "."
    home: str = ""
    leads_to: tuple[str, ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether a command starts in the working directory of the session."""
        return self.arguments.get("workdir", ".") in _HERE


@frozen(kw_only=True)
class AskedRule:
    name: ListName
    rule: WrittenRule
    matched: bool
    command: str = ""


@frozen(kw_only=True)
class PermissionVerdict:
    """The verdict of a policy.

    Attributes:
        name: The list that decided. None: the mode decided.
        reading: The parsed command. None for other calls.
        asked: The compared rules, in order. Empty unless requested.
    """

    decision: PermissionDecision
    why: str
    name: ListName | None = None
    by: tuple[WrittenRule, ...] = ()
    mode: PolicyMode | None = None
    reading: PlainReading | None = None
    uncovered: tuple[tuple[tuple[str, ...], str], ...] = ()
    asked: tuple[AskedRule, ...] = ()


def judge(policy: PermissionPolicy, call: PermissionCall) -> PermissionVerdict:
    """Return the verdict on a call. Total: no call makes it raise."""
    return _strictest(policy, call, explains=False)


def explain_call(policy: PermissionPolicy, call: PermissionCall) -> PermissionVerdict:
    return _strictest(policy, call, explains=True)


def offered(policy: PermissionPolicy, tools: Sequence[str]) -> tuple[str, ...]:
    """Remove the tools that a rule denies for all arguments: the model does not need to know them."""
    members = (policy, *policy.within)
    return tuple(
        tool for tool in tools if all(bare(one.indexes[_DENY].of(tool).rules) is None for one in members)
    )


def reason_for(verdict: PermissionVerdict, tools: Collection[str]) -> str:
    """Return the reason for a refusal, for a model with these tools. Mentions `exit_plan` only if the model has it."""
    return _LOOKING if verdict.why == _PLANNING and EXIT_PLAN not in tools else verdict.why


def refusal_of_end(policy: PermissionPolicy, call: PermissionCall, end: str) -> str | None:
    """Return why a call is refused whose path leads elsewhere by links. None if the target is judged no more strictly."""
    named = judge(policy, call)
    found = judge(policy, evolve(call, leads_to=(end,)))
    if DECISIONS.index(found.decision) <= DECISIONS.index(named.decision):
        return None
    path = call.arguments.get("path", ".")
    if found.decision == "deny":
        return f"Not run: {path!r:.300} leads to {end!r:.300} by a link, and {found.why}"
    return (
        f"Not run: {path!r:.300} leads to {end!r:.300} by a link, which needs the user's approval ({found.why}): "
        "call it again with that path"
    )


def _strictest(policy: PermissionPolicy, call: PermissionCall, *, explains: bool) -> PermissionVerdict:
    found = _Judging(policy, call, explains=explains).verdict()
    for other in policy.within:
        also = _Judging(other, call, explains=explains).verdict()
        trail = (*found.asked, *also.asked)
        found = max(found, also, key=lambda one: DECISIONS.index(one.decision))
        found = evolve(found, asked=trail)
    return found


@frozen
class _Found:
    """The result of the lists: the list, the rules, and the reason if it is not obvious."""

    place: int
    by: tuple[WrittenRule, ...]
    why: str = ""


class _Judging:
    """One policy and one call. Exists only during one function call, so it may be mutable."""

    __slots__ = ("asked", "call", "policy", "reading", "told", "uncovered")

    def __init__(self, policy: PermissionPolicy, call: PermissionCall, *, explains: bool) -> None:
        self.policy = policy
        self.call = call
        self.asked: list[AskedRule] | None = [] if explains else None
        self.reading: PlainReading | None = None
        self.told: str | None = None
        self.uncovered: tuple[tuple[tuple[str, ...], str], ...] = ()

    def verdict(self) -> PermissionVerdict:
        is_unread = False
        place: PathPlace | None = None
        if self.call.tool in SHELL_TOOLS:
            found, is_unread = self._of_line()
        else:
            place = self._place()
            found = self._of_call(place)
        said = [self._answer(mode, found, place, is_unread=is_unread) for mode in self.policy.modes]
        decision, why, mode = max(said, key=lambda one: DECISIONS.index(one[0])) if len(said) > 1 else said[0]
        return PermissionVerdict(
            decision=decision,
            why=why,
            name=None if found is None else LISTS[found.place],
            by=() if found is None else found.by,
            mode=mode,
            reading=self.reading,
            uncovered=self.uncovered,
            asked=tuple(self.asked or ()),
        )

    # --- the lists

    def _of_call(self, place: PathPlace | None) -> _Found | None:
        tool, indexes = self.call.tool, self.policy.indexes
        found = self._first(_DENY, indexes[_DENY].of(tool).rules, place, may_mean)
        if found is None and (tool in WRITERS or tool == "grep"):
            # A rule against reading a file also forbids writing over it and searching in it.
            entries = [
                entry
                for entry in indexes[_DENY].of("read_file").rules
                if isinstance(entry[1].pattern, PathGlob)
            ]
            found = self._first(_DENY, entries, place, may_mean)
        if found is None and tool == "grep":
            found = self._searched(place)
        if found is None:
            found = self._first(_ASK, indexes[_ASK].of(tool).rules, place, may_mean)
        return found or self._first(_ALLOW, indexes[_ALLOW].of(tool).rules, place, must_mean)

    def _searched(self, place: PathPlace | None) -> _Found | None:
        """Ask the user about a search that may find unreadable files: its results cannot be separated here."""
        for number, rule in (
            *self.policy.indexes[_DENY].of("read_file").rules,
            *self.policy.indexes[_DENY].of("grep").rules,
        ):
            if isinstance(rule.pattern, PathGlob) and (place is None or may_hold(rule.pattern, place)):
                written = self.policy.deny[number]
                return _Found(_ASK, (written,), f"it may find files that the rule {written.shown} denies")
        return None

    def _first(
        self, place: int, entries: Sequence[IndexedRule], where: PathPlace | None, means: Callable[..., bool]
    ) -> _Found | None:
        for number, rule in entries:
            matched = means(rule.pattern, self.call.arguments, where)
            if self.asked is not None:
                self._note(place, number, (), matched=matched)
            if matched:
                return _Found(place, (self._written(place, number),))
        return None

    def _of_line(self) -> tuple[_Found | None, bool]:
        """Judge a line. The second value: whether a rule denies some lines of the tool, and this line is unreadable."""
        line = self.call.arguments.get("command")
        deny, ask, allow = (index.of(self.call.tool) for index in self.policy.indexes)
        reading = self.reading = read_plain(line) if isinstance(line, str) else NotRead(0, "no text")
        commands = reading.commands if isinstance(reading, PlainLine) else ()
        whys = [uncovered_by_star(command) for command in commands]
        if deny.rules or ask.rules:
            spoken = (*(one.words for one in commands), *(one.run for one in commands if one.behind))
            for place, rules in ((_DENY, deny), (_ASK, ask)):
                found = self._first_of_line(place, rules, spoken or ((),), line)
                if found is not None:
                    return found, False
        self.told = next((why for why in whys if why is not None), None)
        if commands and self.told is None:
            return self._allowed(allow, commands, whys), False
        # A program that runs its input is as uncertain as an unreadable line, unless a user wrote these exact words as a rule.
        if commands and (found := self._written_whole(allow)) is not None:
            return found, False
        if deny.rules:
            return None, True
        if ask.rules and not commands:
            written = self.policy.ask[ask.rules[0][0]]
            return _Found(_ASK, (written,), f"it cannot be parsed, and the rule {written.shown} asks"), False
        if not commands:  # matches no `allow`, not even one for the whole tool: the mode decides
            return None, False
        return self._allowed(allow, commands, whys), False

    def _written_whole(self, rules: OfTool) -> _Found | None:
        """Return the rule of `allow` without a star that equals the whole line."""
        whole = rules.by_line.get(self.reading) if isinstance(self.reading, PlainLine) else None
        if whole is None or not _SHELL_ARGUMENTS.issuperset(self.call.arguments) or not self.call.is_here:
            return None
        if self.asked is not None:
            self._note(_ALLOW, whole[0], (), matched=True)
        return _Found(_ALLOW, (self._written(_ALLOW, whole[0]),))

    def _first_of_line(
        self, place: int, rules: OfTool, spoken: Sequence[tuple[str, ...]], line: object
    ) -> _Found | None:
        """Return the first rule that may match any command of a line."""
        best: int | None = None
        for words in spoken:
            for number, rule in rules.about(words[0]) if words else rules.anywhere:
                if best is not None and number >= best:
                    break
                matched = self._may_be(rule.pattern, words, line)
                if self.asked is not None:
                    self._note(place, number, words, matched=matched)
                if matched:
                    best = number
        return None if best is None else _Found(place, (self._written(place, best),))

    def _may_be(self, pattern: object, words: tuple[str, ...], line: object) -> bool:
        match pattern:
            case AnyCall():
                return True
            case CommandPattern(not_read=NotRead(), text=text):
                return isinstance(line, str) and line.strip() == text.strip()
            case CommandPattern(line=PlainLine(commands=(_, _, *_)) as whole):
                return whole == self.reading
            case CommandPattern() as rule:
                return may_be(rule, words)
            case _:  # an argument rule, for a tool whose name is a pattern
                return may_mean(pattern, self.call.arguments, None)  # type: ignore[arg-type]  # one of the patterns

    def _allowed(
        self, rules: OfTool, commands: tuple[PlainCommand, ...], whys: Sequence[str | None]
    ) -> _Found | None:
        """Return whether the rules of `allow` cover a line: as a whole, or each of its commands."""
        reading = self.reading
        is_known = _SHELL_ARGUMENTS.issuperset(self.call.arguments)
        whole = None
        # This lookup costs a fifth of a verdict.
        if rules.by_line and is_known and self.call.is_here and isinstance(reading, PlainLine):
            whole = rules.by_line.get(reading)
        every = bare(rules.anywhere)
        entry = min((one for one in (whole, every) if one is not None), key=lambda one: one[0], default=None)
        if entry is not None:
            if self.asked is not None:
                self._note(_ALLOW, entry[0], (), matched=True)
            return _Found(_ALLOW, (self._written(_ALLOW, entry[0]),))
        programs = {command.run[0].lower() for command in commands}
        elsewhere = "git" in programs and ("cd" in programs or not self.call.is_here)
        by: list[WrittenRule] = []
        uncovered: list[tuple[tuple[str, ...], str]] = []
        for command, why in zip(commands, whys, strict=True):
            number = self._covering(rules, command, is_covered=why is None)
            if number is None:
                uncovered.append((command.words, why or ("" if self.call.is_here else _ONLY_HERE)))
            else:
                by.append(self._written(_ALLOW, number))
        if not is_known:
            uncovered.append(((), "it has arguments that command rules do not cover"))
        if elsewhere:
            uncovered.append(
                ((), "git in another directory reads that directory's settings, which can run programs")
            )
        self.uncovered = tuple(uncovered)
        return _Found(_ALLOW, tuple(dict.fromkeys(by))) if commands and not uncovered else None

    def _covering(self, rules: OfTool, command: PlainCommand, *, is_covered: bool) -> int | None:
        entries = rules.about(command.words[0])
        if command.behind:
            entries = (*entries, *rules.about(command.run[0]))
        for number, rule in entries:
            matched = (
                isinstance(rule.pattern, CommandPattern)
                and (rule.pattern.has_star or self.call.is_here)
                and must_be(rule.pattern, command, is_covered=is_covered)
            )
            if self.asked is not None:
                self._note(_ALLOW, number, command.words, matched=matched)
            if matched:
                return number
        return None

    # --- the mode

    def _answer(
        self, mode: PolicyMode, found: _Found | None, place: PathPlace | None, *, is_unread: bool
    ) -> tuple[PermissionDecision, str, PolicyMode | None]:
        tool = self.call.tool
        is_pure = tool in self.policy.pure_tools
        is_held = mode == "plan" and not is_pure and tool not in _PLANS and tool != EXIT_PLAN
        if found is not None and found.place == _DENY:
            return "deny", f"the rule {found.by[0].shown} denies it", None
        if mode == "dont_ask" and (found is None or found.place == _ASK):
            return "deny", "no rule allows it, and in the mode dont_ask the user is not asked", mode
        if is_held:
            return "deny", _PLANNING if self.policy.ends_plan else _LOOKING, mode
        if mode == "plan" and tool == EXIT_PLAN:
            return (
                ("ask", "the plan needs approval", mode)
                if self.policy.ends_plan
                else ("deny", _NO_PLAN, mode)
            )
        if mode == "strict" and tool == EXIT_PLAN and "plan" in self.policy.modes and self.policy.ends_plan:
            return "ask", "the plan needs approval", mode  # otherwise the mode would never end
        if found is not None and found.place == _ASK:
            return "ask", found.why or f"the rule {found.by[0].shown} asks", None
        if found is not None:
            return "allow", f"allowed by {', '.join(rule.shown for rule in found.by)}", None
        if is_unread:
            decision: PermissionDecision = "ask" if mode in {"default", "accept_edits"} else "deny"
            return decision, f"{self._not_read()}, and there are rules that deny some of {tool}", mode
        return self._unmatched(mode, place, is_pure=is_pure)

    def _unmatched(
        self, mode: PolicyMode, place: PathPlace | None, *, is_pure: bool
    ) -> tuple[PermissionDecision, str, PolicyMode | None]:
        tool = self.call.tool
        match mode:
            case "bypass":
                return "allow", "the mode bypass allows calls that match no rule", mode
            case "plan":
                return "allow", "it changes nothing but the plan", mode
            case "default" | "accept_edits" if is_pure:
                return "allow", "it changes nothing", mode
            case "accept_edits" if (
                tool in PATH_TOOLS and place is not None and place.inside and not is_protected(place)
            ):
                return "allow", "the mode accept_edits allows work on files of the workspace", mode
            case _:
                decision: PermissionDecision = "deny" if mode in {"strict", "dont_ask"} else "ask"
                return decision, self._stopped(), mode

    def _not_read(self) -> str:
        """Return why the words of a line do not determine the program it runs."""
        if self.told is not None:
            return self.told
        at, why = (self.reading.at, self.reading.why) if isinstance(self.reading, NotRead) else (0, "no text")
        return f"the command cannot be parsed after character {at}: {why}"

    def _stopped(self) -> str:
        if isinstance(self.reading, NotRead):
            return f"no rule can allow it: the command cannot be parsed after character {self.reading.at}: {self.reading.why}"
        words, why = self.uncovered[0] if self.uncovered else ((), "")
        what = repr(" ".join(words)[:80]) if words else "it"
        return f"no rule allows {what}: {why}" if why else f"no rule allows {what}"

    # --- the trail of compared rules

    def _place(self) -> PathPlace | None:
        path = self.call.arguments.get("path", ".") if self.call.tool in PATH_TOOLS else None
        if not isinstance(path, str):
            return None
        return path_place(path, self.call.working_dir, self.call.home, self.call.leads_to)

    def _written(self, place: int, number: int) -> WrittenRule:
        listed: tuple[WrittenRule, ...] = getattr(self.policy, LISTS[place])
        return listed[number]

    def _note(self, place: int, number: int, words: tuple[str, ...], *, matched: bool) -> None:
        assert self.asked is not None  # noqa: S101 - checked by its callers
        rule = self._written(place, number)
        self.asked.append(AskedRule(name=LISTS[place], rule=rule, matched=matched, command=" ".join(words)))
