"""Named socket commands: each is carried out once per `client_id`, within this process and bounded memory."""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec
import trio
from attrs import define, field

from agentrail.gateway.error_responses import ErrorAnswer, error_answer, refuse_call
from agentrail.gateway.socket_frames import CommandFrame
from agentrail.host.identity import SessionOwner
from agentrail.wire.plain import encode_plain

MAX_KEPT_OF_EACH: Final = 256
"""Limit on stored commands of one caller."""

MAX_KEPT_COMMANDS: Final = 10_000
MAX_COMMANDS_BYTES: Final = 16 << 20
"""Limit on the size of all stored results, in bytes."""

MAX_KEPT_RESULT_BYTES: Final = 64 << 10
"""Limit on a single stored result. A command with a larger one runs again."""

MAX_AT_WORK_OF_EACH: Final = 200
"""Limit on running commands of one caller, including those whose sockets are closed."""

_NOT_FINAL: Final = frozenset({408, 421, 425, 429})
_SERVER_FAULT: Final = 500

CommandOutcome: TypeAlias = bytes | ErrorAnswer
"""Outcome of a command: JSON, or the error that refused it."""

_Key: TypeAlias = tuple[SessionOwner, str | None, str, str]


@define(eq=False, kw_only=True)
class _Named:
    digest: bytes
    outcome: CommandOutcome | None = None
    size: int = 0
    done: trio.Event = field(factory=trio.Event)


class CommandMemory:
    """Outcomes of recent named commands, and the running ones."""

    def __init__(self) -> None:
        self._named: OrderedDict[_Key, _Named] = OrderedDict()
        self._of_each: dict[SessionOwner, OrderedDict[_Key, None]] = {}
        self._at_work: dict[SessionOwner, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._named)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    async def do_once(
        self,
        owner: SessionOwner,
        command: CommandFrame,
        client_id: str,
        nursery: trio.Nursery,
        work: Callable[[], Awaitable[CommandOutcome]],
    ) -> CommandOutcome:
        """Run a command, or return its earlier outcome.

        Cancellation: The command continues.
        """
        key = (owner, command.session_id, command.name, client_id)
        digest = _digest_of(command)
        known = self._named.get(key)
        if known is None:
            if self._at_work.get(owner, 0) >= MAX_AT_WORK_OF_EACH:
                message = f"{MAX_AT_WORK_OF_EACH} commands of this caller are running, which is the limit; wait for replies"
                refuse_call("too_many_requests", message)
            known = self._named[key] = _Named(digest=digest)
            self._of_each.setdefault(owner, OrderedDict())[key] = None
            self._at_work[owner] = self._at_work.get(owner, 0) + 1
            nursery.start_soon(self._do, key, known, work, name=f"command {command.name}")
        elif known.digest != digest:
            message = "this client_id was already used for another command: give each command its own"
            refuse_call("client_id_reused", message)
        await known.done.wait()
        if known.outcome is None:
            return error_answer("draining", "the server is shutting down")
        return known.outcome

    async def _do(self, key: _Key, named: _Named, work: Callable[[], Awaitable[CommandOutcome]]) -> None:
        try:
            named.outcome = await work()
        finally:
            self._end(key, named)
            named.done.set()

    def _end(self, key: _Key, named: _Named) -> None:
        owner = key[0]
        self._at_work[owner] -= 1
        if not self._at_work[owner]:
            del self._at_work[owner]
        if named.outcome is None or not _is_kept(named.outcome):
            self._forget(key)
            return
        named.size = len(named.outcome) if isinstance(named.outcome, bytes) else len(named.outcome.message)
        self._bytes += named.size
        own = self._of_each[owner]
        while len(own) > MAX_KEPT_OF_EACH and self._forget_oldest(own):
            pass
        while (
            len(self._named) > MAX_KEPT_COMMANDS or self._bytes > MAX_COMMANDS_BYTES
        ) and self._forget_oldest(self._named):
            pass

    def _forget_oldest(self, keys: "OrderedDict[_Key, _Named] | OrderedDict[_Key, None]") -> bool:
        oldest = next((key for key in keys if self._named[key].outcome is not None), None)
        if oldest is None:
            return False
        self._forget(oldest)
        return True

    def _forget(self, key: _Key) -> None:
        self._bytes -= self._named.pop(key).size
        own = self._of_each[key[0]]
        del own[key]
        if not own:
            del self._of_each[key[0]]


def _is_kept(outcome: CommandOutcome) -> bool:
    """Return whether a repetition would have the same outcome. Temporary refusals are not stored."""
    if isinstance(outcome, bytes):
        return len(outcome) <= MAX_KEPT_RESULT_BYTES
    return outcome.status not in _NOT_FINAL and outcome.status < _SERVER_FAULT


def _digest_of(command: CommandFrame) -> bytes:
    plain = msgspec.json.decode(encode_plain(command.fields))
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).digest()
