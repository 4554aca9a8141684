"""A stand-in for a model, so that the research runs offline: rules for the leader and for its three readers."""

import re
from typing import Final

from agentrail.abc import ModelRequest
from agentrail.messages import Text, ToolResult, UserMessage
from agentrail.testing.models import FunctionModel, Turn, calls, says

STEPS: Final = (
    "Give each part of the question to a researcher",
    "Wait for what they find",
    "Read again each passage that they name",
    "Write the report",
)
_FINDING: Final = re.compile(r"^(\w[\w-]*): (.+?) \[([^\]\n]+)\] \(passage ([^)\n]+)\)$", re.MULTILINE)
_NOTHING: Final = re.compile(r"^(\w[\w-]*): nothing is written$", re.MULTILINE)


def Offline() -> FunctionModel:  # noqa: N802 - stands for a class
    """Create the model."""
    return FunctionModel(choose)


def choose(request: ModelRequest) -> Turn:
    """Return the next text or call."""
    prompts, results = _conversation(request)
    if (request.system or "").startswith("You look"):
        return _look(prompts[0], results)
    return _lead(prompts, results)


def _look(task: str, results: list[ToolResult]) -> Turn:
    """Search once, and say the first line that has the word."""
    part = task.partition(":")[0]
    if not results:
        return calls(("kb_search", {"query": task, "limit": 5}))
    passages = re.finditer(
        r'<passage id="([^"]+)" source="([^"]+)#L(\d+)-L\d+"[^\n]*>\n(.*?)\n</passage>',
        results[-1].text,
        re.DOTALL,
    )
    for found in passages:
        for number, line in enumerate(found[4].splitlines(), int(found[3])):
            if part in line.lower() and not line.startswith("#"):
                return says(f"{part}: {line} [{found[2]}#L{number}-L{number}] (passage {found[1]})")
    return says(f"{part}: nothing is written")


def _lead(prompts: list[str], results: list[ToolResult]) -> Turn:
    """Follow the plan, one step per response. After a rejection, start with the third step."""
    question, _, parts = prompts[0].partition(":")
    names = [part.strip() for part in parts.split(",") if part.strip()][:3] or ["cost", "comfort", "risk"]
    told = "\n".join(one.text for one in results if one.name == "wait_agents")
    is_read = bool(results) and results[-1].name == "kb_read"
    if not results:
        tasks = [{"agent": "researcher", "name": name, "task": f"{name}: {question}"} for name in names]
        return calls(*(("spawn_agent", task) for task in tasks), text=_plan(0))
    if not told:
        return calls(("wait_agents", {"names": [*names]}), text=_plan(1))
    if not is_read and (found := _FINDING.findall(told)):
        return calls(*(("kb_read", {"id": one[3], "around": 0}) for one in found), text=_plan(2))
    return says(_report(question, told, is_careful=len(prompts) > 1))


def _plan(done: int) -> str:
    """Write the plan with so many steps done, and the next one begun."""
    boxes = ["[x]"] * done + ["[~]"] + ["[ ]"] * len(STEPS)
    return "\n".join(f"- {box} {step}" for box, step in zip(boxes, STEPS, strict=False))


def _report(question: str, told: str, *, is_careful: bool) -> str:
    """Write it all down. Invents sources at first, as models do, and leaves the question open after a rejection."""
    parts = [f"# {question}?"]
    parts += [
        f"## {name.capitalize()}\n\n{line} [{source}]" for name, line, source, _ in _FINDING.findall(told)
    ]
    for name in _NOTHING.findall(told):
        invented = f"Everyone agrees about the {name}. [{name}.md#L1-L4]"
        parts.append(
            f"## {name.capitalize()}\n\n{'Nothing is written about it.' if is_careful else invented}"
        )
    parts.append(f"## How this was done\n\n{_plan(len(STEPS))}")
    return "\n\n".join(parts) + "\n"


def _conversation(request: ModelRequest) -> tuple[list[str], list[ToolResult]]:
    """Return the prompts, and the results since the last one."""
    prompts: list[str] = []
    results: list[ToolResult] = []
    for message in request.messages:
        if isinstance(message, UserMessage) and message.origin == "prompt":
            prompts.append("".join(one.text for one in message.content if isinstance(one, Text)))
            results = [one for one in results if one.name != "kb_read"]
        results += getattr(message, "results", ())
    return prompts, results
