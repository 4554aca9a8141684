"""Rows of a server, watched within a block: the current rows, and their changes. Trio."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
import trio

from agentrail import websockets
from agentrail.errors import AgentrailError, CodecError, Unreachable
from agentrail.remote.dialer import Dial, keep_connected, keep_time
from agentrail.remote.error_codes import error_of_reply, stated_object
from agentrail.remote.frame_codec import LinkTerms, object_in
from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import RowFilter, decode_row

WatchedLine: TypeAlias = Literal["connecting", "live", "lost"]
"""State of the connection."""

_WATCH_ID: Final = 1
_HEARTBEAT_SECONDS: Final = 15.0

R = TypeVar("R", bound=msgspec.Struct)


class WatchedRows(Generic[R]):
    def __init__(self, dial: Dial, what: str, kind: type[R], key: str, wanted: RowFilter) -> None:
        self._dial = dial
        self._what = what
        self._kind = kind
        self._key = key
        self._wanted = wanted
        self._rows: dict[str, R] = {}
        self._changed = trio.Event()
        self._heard_at = 0.0
        self._welcomed_at: float | None = None
        self.total: int = 0
        self.line: WatchedLine = "connecting"
        self.fault: AgentrailError | None = None
        self.last_end: BaseException | None = None
        self.is_whole: bool = False
        self.version: int = 0

    @property
    def rows(self) -> Mapping[str, R]:
        return MappingProxyType(self._rows)

    async def wait_changed(self, version: int) -> None:
        await trio.lowlevel.checkpoint()
        while self.version == version and self.fault is None:
            await self._changed.wait()
        if self.fault is not None:
            raise self.fault.with_traceback(None)

    async def run(self) -> None:
        await keep_connected(
            self._dial, _HEARTBEAT_SECONDS, self._serve, lambda: self._welcomed_at, self._take_end
        )

    def _take_end(self, ended: BaseException | None, fault: AgentrailError | None) -> None:
        self.last_end, self.fault, self._welcomed_at = ended, fault, None
        self.line, self.is_whole = "lost", False
        self._tell()

    async def _serve(
        self, connection: "websockets.WebSocketConnection", _: LinkTerms, nursery: trio.Nursery
    ) -> None:
        self._welcomed_at = self._heard_at = trio.current_time()
        nursery.start_soon(keep_time, connection, _HEARTBEAT_SECONDS, lambda: self._heard_at)
        asked = {
            "type": "watch",
            "id": _WATCH_ID,
            "what": self._what,
            "filter": msgspec.structs.asdict(self._wanted),
        }
        await connection.send_message(encode_plain(asked).decode())
        while True:
            text = await connection.get_message()
            self._heard_at = trio.current_time()
            self.take(text)

    def take(self, text: str | bytes) -> None:
        told = object_in(text)
        if told.get("type") == "reply" and told.get("id") == _WATCH_ID and not told.get("ok", False):
            raise error_of_reply(stated_object(told.get("error")), None)
        if told.get("type") not in ("watching", "changed") or told.get("id") != _WATCH_ID:
            return
        if told["type"] == "watching":
            self._rows = {}
        try:
            for one in told["rows"]:
                row = decode_row(self._kind, one)
                self._rows[getattr(row, self._key)] = row
            for key in told.get("gone", ()):
                self._rows.pop(key, None)
            self.total = int(told["total"])
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            message = f"the server sent invalid rows of {self._what}: {error}"
            raise CodecError(message, path="$") from error
        self.line = "live"
        self.is_whole = self.is_whole or len(self._rows) >= min(self.total, self._wanted.limit)
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        changed, self._changed = self._changed, trio.Event()
        changed.set()


@asynccontextmanager
async def watch_rows(  # noqa: PLR0913 - what is watched, and for how long one waits
    dial: Dial, what: str, kind: type[R], key: str, wanted: RowFilter, *, connect_seconds: float | None = 30.0
) -> AsyncIterator[WatchedRows[R]]:
    watched = WatchedRows(dial, what, kind, key, wanted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched.run)
        with trio.move_on_after(float("inf") if connect_seconds is None else connect_seconds) as waited:
            while watched.line != "live" and watched.fault is None:
                await watched._changed.wait()  # noqa: SLF001 - one of us
        if watched.fault is None and waited.cancelled_caught:
            why = f" ({watched.last_end})" if isinstance(watched.last_end, OSError) else ""
            message = (
                f"no server answered within {connect_seconds:g} s{why}: check the address, or try again later"
            )
            watched.fault = Unreachable(message)
            watched.fault.__cause__ = watched.last_end
        if watched.fault is None:
            yield watched
        nursery.cancel_scope.cancel(reason="the watch was closed")
    if watched.fault is not None:
        faults, watched.fault = [watched.fault], None  # its traceback refers to this frame
        raise faults.pop()
