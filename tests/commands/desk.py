"""A session that answers as it is told, for commands that are run alone."""

from typing import Any

from agentrail.messages import SessionId


class Told:
    """Notes what it is asked, and answers what it was told to."""

    session_id = SessionId("told")

    def __init__(self, **answers: Any) -> None:
        """Take the answers, by the name of the call."""
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **given: Any) -> Any:
            self.asked.append((name, args, given))
            return self._answers.get(name)

        return call
