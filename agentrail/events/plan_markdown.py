r"""Plans as Markdown, for users and models. The round trip is exact.

    # Tidy up
    - [x] look
      - result: twelve modules
    - [~] tidy
    - [ ] test

One value per line. Line breaks, outer blanks and empty values are escaped like HTML's `&#10;`, and `&#` as `&#38;#`.
"""

import re
from typing import Any, Final

from agentrail.errors import PlanError
from agentrail.events.plans import Plan, PlanStatus, PlanStep

STEP_MARKS: Final[dict[PlanStatus, str]] = {
    "pending": " ",
    "in_progress": "~",
    "completed": "x",
    "failed": "!",
    "skipped": "-",
}
_STATUSES: Final[dict[str, PlanStatus]] = {
    **{mark: status for status, mark in STEP_MARKS.items()},
    "X": "completed",
}

CHECKBOX: Final = re.compile(
    r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX~!-])\][ \t]+(\S[^\n]*)$", re.MULTILINE
)
_DETAIL: Final = re.compile(r"  - (result|error|note): (.+)")
_SAID: Final = re.compile(r"[ \t]+[-*+][ \t]+(result|error|note):[ \t]+(\S.*)")
MAX_SAID: Final = 2_000
"""Maximum length of a step's result, error or note when read from text, in characters."""
MAX_STEP_NOTES: Final = 20
"""Maximum number of notes per step when read from text."""
_APPROVED: Final = re.compile(r"<!-- approved_at_ms: (-?\d{1,18}) -->")
_ESCAPED: Final = re.compile(r"&#(\d{0,7});")
_LAST_CHARACTER: Final = 0x10FFFF
_BREAKS: Final = {ord(one): f"&#{ord(one)};" for one in "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"}


def encode_plan(plan: Plan) -> str:
    """Encode a plan as Markdown."""
    lines = [f"# {_escaped(plan.goal)}"] if plan.goal else []
    if plan.approved_at_ms is not None:
        lines.append(f"<!-- approved_at_ms: {plan.approved_at_ms} -->")
    lines += [f"> {_escaped(note)}" for note in plan.notes]
    for step in plan.steps:
        lines += _lines_of(step)
    return "".join(f"{line}\n" for line in lines)


def decode_plan(text: str) -> Plan:
    """Decode a plan from `encode_plan`, or in the same form.

    Raises:
        PlanError: Your move: a line is not part of a plan. The message has its number.
    """
    goal, approved, notes = "", None, []
    steps: list[dict[str, object]] = []
    for number, whole in enumerate(text.split("\n"), start=1):
        line = whole.rstrip()
        if not line:
            continue
        box, detail, stamp = CHECKBOX.fullmatch(line), _DETAIL.fullmatch(line), _APPROVED.fullmatch(line)
        if detail is not None and steps:
            _add_detail(steps[-1], detail[1], _plain(detail[2]))
        elif box is not None:
            steps.append({"content": _plain(box[2]), "status": _STATUSES[box[1]]})
        elif stamp is not None:
            approved = int(stamp[1])
        elif line.startswith("# ") and not goal and not steps:
            goal = _plain(line[2:])
        elif line.startswith("> ") and not steps:
            notes.append(_plain(line[2:]))
        else:
            message = f"line {number} is {line!r:.80}: expected `- [ ] a step`, `# the goal`, `> a note` or `  - result: the outcome`"
            raise PlanError(message)
    made = tuple(PlanStep(index=place, **step) for place, step in enumerate(steps))  # type: ignore[arg-type]  # as gathered above
    return Plan(steps=made, goal=goal, notes=tuple(notes), approved_at_ms=approved)


def read_steps(text: str) -> tuple[PlanStep, ...]:
    """Return the checkboxes of any text in order, with the results right below each."""
    found = list(CHECKBOX.finditer(text))
    ends = [*[one.start() for one in found], len(text)][1:]
    return tuple(
        PlanStep(
            index=index,
            content=_plain(one[2].rstrip()),
            status=_STATUSES[one[1]],
            **_said_below(text[one.end() + 1 : end]),
        )
        for index, (one, end) in enumerate(zip(found, ends, strict=True))
    )


def _said_below(text: str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    notes: list[str] = []
    start = 0
    while (found := _SAID.match(text, start)) is not None:
        told = _plain(found[2].rstrip())[:MAX_SAID]
        if found[1] != "note":
            said[found[1]] = told
        elif len(notes) < MAX_STEP_NOTES:
            notes.append(told)
        start = found.end() + 1
    return said | ({"notes": tuple(notes)} if notes else {})


def _lines_of(step: PlanStep) -> list[str]:
    lines = [f"- [{STEP_MARKS[step.status]}] {_escaped(step.content)}"]
    if step.result is not None:
        lines.append(f"  - result: {_escaped(step.result)}")
    if step.error is not None:
        lines.append(f"  - error: {_escaped(step.error)}")
    return [*lines, *(f"  - note: {_escaped(note)}" for note in step.notes)]


def _add_detail(step: dict[str, object], name: str, text: str) -> None:
    if name == "note":
        known = step.get("notes", ())
        assert isinstance(known, tuple)  # noqa: S101 - made here
        step["notes"] = (*known, text)
    else:
        step[name] = text


def _escaped(text: str) -> str:
    if not text:
        return "&#;"
    text = text.replace("&#", "&#38;#")
    inner = text.strip()
    start = text.index(inner) if inner else len(text)
    end = start + len(inner)
    return "".join([*map(_number_of, text[:start]), inner.translate(_BREAKS), *map(_number_of, text[end:])])


def _number_of(character: str) -> str:
    return f"&#{ord(character)};"


def _plain(text: str) -> str:
    return _ESCAPED.sub(_character_of, text)


def _character_of(found: re.Match[str]) -> str:
    digits = found[1]
    if not digits:
        return ""
    return chr(int(digits)) if int(digits) <= _LAST_CHARACTER else found[0]
