"""How much a host takes of its callers: the numbers, their defaults and what each may be. Pure: a file of a project may lower them."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs
from attrs import frozen

from agentrail.errors import OptionError
from agentrail.frozen import MAX_LEVELS
from agentrail.messages import MAX_PROMPT_BYTES

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


@frozen(kw_only=True)
class Limits:
    """How much is taken of one caller, and of all of them together.

    Attributes:
        max_body_bytes: Of a request without files.
        max_body_with_attachments_bytes: Of one with files, which travel as base64, a third longer than they are.
        max_attachments: Files of one message.
        max_attachment_bytes: Of one file, decoded.
        max_attachments_bytes: Of all files of a message together, decoded.
        max_attachment_name: Characters of a cleaned name; at least 8, so that there is room for a number.
        max_message_bytes: Of the text of a message, as UTF-8; at most the 1 MB that a session takes.
        max_metadata_bytes: Of the metadata of a message or a session, as JSON; at most 64 KiB, since it stands in every event of a
            plugin of its session.
        max_json_depth: How deep the JSON of a body may be nested; at most 128, more is taken nowhere.
        messages_per_minute: Messages with a user's words, of one principal, in the long run.
        messages_burst: How many of them may come at once.
        calls_per_minute: All other calls of one principal, in the long run; but `abort`, `reject` and `cancel`, which are free.
        calls_burst: How many of them may come at once.
        failed_authentications_per_minute: Of one address.
        max_streams_per_principal: Open streams and sockets of one principal.
        max_streams: Open streams and sockets of the process.
        max_sessions_per_principal: Sessions of one principal that have not ended.
        cost_per_day_usd: What one principal may spend from one midnight of UTC to the next, in dollars; None for no such limit. When it
            is spent no more messages are taken; cycles under way go on, so a day may cost more by what these use. Needs a store.
        tenant_cost_per_day_usd: The same of all principals of a tenant together.
        max_frame_bytes: Of a frame of a socket that comes in.
        max_subscriptions: Of one socket.
        commands_per_second: Of one socket.
    """

    max_body_bytes: int = _MIB
    max_body_with_attachments_bytes: int = 36 * _MIB
    max_attachments: int = 10
    max_attachment_bytes: int = 10 * _MIB
    max_attachments_bytes: int = 25 * _MIB
    max_attachment_name: int = 100
    max_message_bytes: int = 256 * _KIB
    max_metadata_bytes: int = 4 * _KIB
    max_json_depth: int = 64
    messages_per_minute: int = 60
    messages_burst: int = 10
    calls_per_minute: int = 600
    calls_burst: int = 100
    failed_authentications_per_minute: int = 10
    max_streams_per_principal: int = 100
    max_streams: int = 5_000
    max_sessions_per_principal: int = 1_000
    cost_per_day_usd: float | None = None
    tenant_cost_per_day_usd: float | None = None
    max_frame_bytes: int = _MIB
    max_subscriptions: int = 64
    commands_per_second: int = 100

    @property
    def has_day_budgets(self) -> bool:
        """Whether there is a budget of a day; without one no spending is read."""
        return self.cost_per_day_usd is not None or self.tenant_cost_per_day_usd is not None

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            OptionError: The operator's move: every fault, with the limit, what it got and what it takes.
        """
        faults = [
            f"{name} is {value!r:.80}: expected a whole number from {least}{_up_to(most)}"
            for name, value in attrs.asdict(self, recurse=False).items()
            if name not in _DOLLARS
            for least, most in [_BOUNDS.get(name, (1, math.inf))]
            if type(value) is not int or not least <= value <= most
        ]
        faults += [
            f"{name} is {value!r:.80}: expected a finite number of dollars above 0, or None"
            for name in _DOLLARS
            for value in [getattr(self, name)]
            if value is not None and not _is_amount(value)
        ]
        if faults:
            raise OptionError(faults)


_DOLLARS: Final = ("cost_per_day_usd", "tenant_cost_per_day_usd")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


_BOUNDS: Final[dict[str, tuple[int, float]]] = {
    "max_attachments": (0, math.inf),
    "max_attachment_name": (8, 255),
    "max_message_bytes": (1, MAX_PROMPT_BYTES),
    "max_metadata_bytes": (0, 64 * _KIB),
    "max_json_depth": (1, MAX_LEVELS),
}
"""What a limit may be, where not any whole number from 1 on does: a file system has names of 255 bytes at most."""


def _up_to(most: float) -> str:
    return "" if most == math.inf else f" to {most}"


HOST_LIMITS: Final[Mapping[str, int | None]] = MappingProxyType(
    {one.name: one.default for one in attrs.fields(Limits)}
)
"""What a host takes where nothing is said."""
