"""A stand-in for a model, so that the desk runs offline: rules that choose the tools that a model would choose."""

import re

from agentrail.abc import ModelRequest
from agentrail.messages import Text, ToolResult, UserMessage
from agentrail.testing.models import FunctionModel, Turn, calls, says


def Offline() -> FunctionModel:  # noqa: N802 - stands for a class
    """Create the model."""
    return FunctionModel(choose)


def choose(request: ModelRequest) -> Turn:
    """Return the next text or call, from the last question and the results since."""
    question, results = _since_the_question(request)
    last = results[-1] if results else None
    if (request.system or "").startswith("You pay"):
        return _pay(question, last)
    if last is not None:
        return says(_told(question, last))
    if re.search(r"money|refund|pay", question):
        return calls(("handoff_to", {"agent": "billing", "note": question}))
    if found := re.match(r"remember (?:that )?(.+)", question, re.IGNORECASE):
        return calls(("remember", {"text": found[1], "scope": "user"}))
    if "know" in question and "me" in question:
        return calls(("recall", {"query": "customer I my like live"}))
    if found := re.search(r"order (\d+)", question):
        return calls(("find_order", {"number": int(found[1])}))
    return calls(("kb_search", {"query": question, "limit": 1}))


def _pay(question: str, last: ToolResult | None) -> Turn:
    wanted = re.search(r"order (\d+)", question)
    if wanted is None:
        return says("Which order is it? Write: money for order 17.")
    found = re.match(r"Order (\d+): .+, ([\d.]+) EUR", last.text) if last is not None else None
    if found is not None:
        return calls(("refund", {"number": int(found[1]), "euros": float(found[2])}))
    if last is None or last.name == "handoff_to":
        return calls(("find_order", {"number": int(wanted[1])}))
    return says(last.text)


def _told(question: str, result: ToolResult) -> str:
    """Return the finding of a tool: the sentence of a passage with most words of the question, and its place."""
    if result.name == "remember":
        return "I will remember that."
    inside = re.search(r"<(?:passage|memory) ([^>]*)>\n(.*?)\n</", result.text, re.DOTALL)
    if inside is None:
        return "I know nothing of you yet." if result.name == "recall" else result.text
    lines = [line for line in inside[2].splitlines() if line and not line.startswith("#")]
    words = set(re.findall(r"\w+", question.lower()))
    best = max(lines, key=lambda line: len(words & set(re.findall(r"\w+", line.lower()))))
    source = re.search(r'source="([^"]+)"', inside[1])
    return f"{best} [{source[1]}]" if source else f"You said: {best}"


def _since_the_question(request: ModelRequest) -> tuple[str, list[ToolResult]]:
    results: list[ToolResult] = []
    for message in reversed(request.messages):
        if isinstance(message, UserMessage) and message.origin == "prompt":
            return "".join(one.text for one in message.content if isinstance(one, Text)), results[::-1]
        results += reversed(getattr(message, "results", ()))
    return "", results[::-1]
