"""What a `robots.txt` says (RFC 9309). Pure."""

from typing import Final
from urllib.robotparser import RobotFileParser

_MISSING: Final = range(400, 500)
_THERE: Final = range(200, 300)
_MAX_LINES: Final = 5_000


class RobotsTxt:
    """The rules of one server for one program."""

    __slots__ = ("_agent", "_parser")

    def __init__(self, status: int, content: bytes, agent: str) -> None:
        """Read them.

        Args:
            status: That of the answer: without a file all is allowed, with a server that is not well nothing.
            content: The file.
            agent: What we are called in it.
        """
        self._agent = agent
        self._parser = RobotFileParser()
        if status in _THERE:
            self._parser.parse(content.decode("utf-8-sig", "replace").splitlines()[:_MAX_LINES])
        else:
            lines = [] if status in _MISSING else ["User-agent: *", "Disallow: /"]
            self._parser.parse(lines)

    def allows(self, target: str) -> bool:
        """Say whether a path with its query may be fetched."""
        return self._parser.can_fetch(self._agent, target)
