"""Questions of a server that are the result of a call: one after the other to the user, then the call again with all answers. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import asdict, evolve, frozen
from msgspec.structs import replace

from agentrail.abc import Resumption, ToolQuestion
from agentrail.core.values.question_forms import fault_of_form, fault_of_url
from agentrail.frozen import thawed, too_large
from agentrail.tools.mcp.call_result import refused_call

MAX_QUESTION_ROUNDS: Final = 10
"""Results in a row by which one call may ask."""

OUR_ANSWERS: Final = "inputResponses"
"""Key that a result gets for the answers that need no user."""

_INTERNAL_ERROR: Final = -32603
_ACTIONS: Final = {"answered": "accept", "declined": "decline", "timeout": "cancel"}


def asks_for_input(result: Mapping[str, Any]) -> bool:
    return result.get("resultType") == "input_required"


def question_of(server: str, params: Mapping[str, Any]) -> ToolQuestion | None:
    """Return an elicitation as a question, or None for one that sessions cannot show. Nothing is opened."""
    url = params.get("url")
    schema = None if url is not None else params.get("requestedSchema")
    if (fault_of_form(schema) if url is None else fault_of_url(url)) is not None:
        return None
    options = () if url is None else ("Done",)
    message = f"{server}: {params.get('message', '')}"
    return ToolQuestion(question=message, options=options, schema=schema, url=url)


def elicit_result_of(params: Mapping[str, Any], outcome: str, answer: Any = None) -> Mapping[str, Any]:
    content = {"content": answer} if outcome == "answered" and "url" not in params else {}
    return {"action": _ACTIONS[outcome], **content}


@frozen(kw_only=True)
class InputRounds:
    """What a call knows of its questions. Stored with its session while the user is asked.

    Attributes:
        count: Results by which it asked.
        sealed: State of the server, which it gets back with the answers. None without one.
        answers: Results of the questions by the server's keys.
        left: Parameters of the questions that remain. The first one is being asked.
    """

    count: int = 0
    sealed: str | None = None
    answers: Mapping[str, Any] = {}
    left: Mapping[str, Any] = {}

    def asked(self, result: Mapping[str, Any]) -> "InputRounds":
        """Return the questions of a valid result.

        Raises:
            CallFailed: They are not put to the user.
        """
        requests, answers = result.get("inputRequests") or {}, result.get(OUR_ANSWERS) or {}
        if self.count == MAX_QUESTION_ROUNDS:
            raise refused_call(_INTERNAL_ERROR, f"it asked more than {MAX_QUESTION_ROUNDS} times")
        size = too_large(result)
        if size is not None:
            raise refused_call(_INTERNAL_ERROR, f"its questions have {size}")
        left = {key: one["params"] for key, one in requests.items() if key not in answers}
        sealed = result.get("requestState")
        return InputRounds(count=self.count + 1, sealed=sealed, answers=answers, left=left)

    def next_question(self, server: str) -> "tuple[InputRounds, ToolQuestion | None]":
        """Return the next question, or None if all are answered. One that sessions cannot show is declined."""
        rounds = self
        for key, params in self.left.items():
            question = question_of(server, params)
            if question is not None:
                return rounds, replace(question, state=asdict(rounds))
            rounds = rounds._with_answer(key, elicit_result_of(params, "declined"))
        return rounds, None

    def _with_answer(self, key: str, answer: Mapping[str, Any]) -> "InputRounds":
        left = {other: params for other, params in self.left.items() if other != key}
        return evolve(self, answers={**self.answers, key: answer}, left=left)


def resumed_rounds(resumption: Resumption | None) -> InputRounds:
    """Return the rounds of a call that runs again with the answer to its first open question."""
    if resumption is None:
        return InputRounds()
    rounds = InputRounds(**thawed(resumption.state))
    key, params = next(iter(rounds.left.items()))
    answer = elicit_result_of(params, resumption.outcome, thawed(resumption.answer))
    return rounds._with_answer(key, answer)  # noqa: SLF001 - of this module
