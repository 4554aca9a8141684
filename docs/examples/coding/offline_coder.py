"""A stand-in for a model, so that the agent runs offline: rules that choose the tools that a model would choose."""

import re
import shlex

from agentrail.abc import ModelRequest
from agentrail.messages import Text, ToolResult, UserMessage
from agentrail.testing.models import FunctionModel, Turn, calls, says

TEST = ("shell", {"command": "sh test_total.sh"})
LOOKS = (
    ("list_dir", {"path": "."}),
    ("read_file", {"path": "total.sh"}),
    ("read_file", {"path": "test_total.sh"}),
    TEST,
)
EDIT = {"path": "total.sh", "old_string": "sum=$price", "new_string": "sum=$((sum + price))"}
TITLE = "Add all prices up"


def Offline() -> FunctionModel:  # noqa: N802 - stands for a class
    """Create the model."""
    return FunctionModel(choose)


def choose(request: ModelRequest) -> Turn:
    """Return the next text or call, from the last task and the results since."""
    task, results = _since_the_task(request)
    if "You review" in (request.system or ""):
        return _review(results)
    if "mend" in task:
        return _mend(results, is_planning="# Mode: plan" in (request.system or ""))
    if results:
        return says("That was refused." if results[-1].is_error else results[-1].text)
    if "review" in task:
        return calls(("task", {"subagent_type": "reviewer", "description": "Review the last commit."}))
    if found := re.search(r"`(.+)`", task):
        return calls(("shell", {"command": found[1]}))
    if found := re.search(r"\S+\.txt", task):
        return calls(("write_file", {"path": found[0], "content": "Mended.\n"}))
    return says("I mend the test, review, write notes into a .txt, and run what stands in `backticks`.")


def _mend(results: list[ToolResult], *, is_planning: bool) -> Turn:
    """Look around, hand in a plan, and carry it out."""
    if len(results) < len(LOOKS):
        return calls(LOOKS[len(results)])
    last = results[-1]
    if is_planning:
        if last.name != "exit_plan":
            return _hand_in(TITLE)
        wanted = re.search(r'"([^"]+)"', last.text)
        return _hand_in(wanted[1]) if wanted else says("Then I leave it as it is.")
    plans = [one.text for one in results if one.name == "exit_plan" and not one.is_error]
    title = re.search(r'"([^"]+)"', plans[-1]) if plans else None
    steps = (
        ("edit_file", EDIT),
        TEST,
        ("shell", {"command": f"git commit -q -a -m {shlex.quote(title[1] if title else TITLE)}"}),
    )
    done = [one for one in results[len(LOOKS) :] if one.name != "exit_plan"]
    if any(one.is_error or "exit code 1" in one.text for one in done):
        return says(f"I stopped: {done[-1].text}")
    return (
        calls(steps[len(done)]) if len(done) < len(steps) else says("The test passes, and it is committed.")
    )


def _hand_in(title: str) -> Turn:
    plan = f'1. In total.sh add each price to the sum.\n2. Run sh test_total.sh.\n3. Commit it as "{title}".'
    return calls(("exit_plan", {"plan": plan}))


def _review(results: list[ToolResult]) -> Turn:
    """Look at the commit, and try to better it, which is not for a reviewer."""
    lines = ("git show --stat", "git commit -q --amend -m Better", "git push origin HEAD")
    if len(results) < len(lines):
        return calls(("shell", {"command": lines[len(results)]}))
    return says("The commit does one thing, and has a test.")


def _since_the_task(request: ModelRequest) -> tuple[str, list[ToolResult]]:
    results: list[ToolResult] = []
    for message in reversed(request.messages):
        if isinstance(message, UserMessage) and message.origin == "prompt":
            return "".join(one.text for one in message.content if isinstance(one, Text)), results[::-1]
        results += reversed(getattr(message, "results", ()))
    return "", results[::-1]
