"""Limits of a host for its clients."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs
from attrs import frozen

from agentrail.errors import OptionError
from agentrail.frozen import MAX_LEVELS
from agentrail.messages import MAX_PROMPT_BYTES
from agentrail.otp.field_rules import Dollars, faults_of_fields
from agentrail.otp.guarded_calls import repr_of

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


@frozen(kw_only=True)
class Limits:
    """Limits for one client, and for all together.

    Attributes:
        max_body_bytes: Size of a request without files.
        max_body_with_attachments_bytes: Size of a request with files, in base64.
        max_attachments: Files per message.
        max_attachment_bytes: Size of one file, decoded.
        max_attachments_bytes: Size of all files of a message, decoded.
        max_attachment_name: Characters of a cleaned name, at least 8.
        max_message_bytes: Size of a message's text, as UTF-8, at most 1 MB.
        max_metadata_bytes: Size of the metadata of a message or session, as JSON, at most 64 KiB.
        max_json_depth: Nesting depth of a body's JSON, at most 128.
        messages_per_minute: Sustained rate of user messages, per principal.
        messages_burst: How many may arrive at once.
        calls_per_minute: Sustained rate of other calls, per principal. `abort`, `reject` and `cancel` are free.
        calls_burst: How many may arrive at once.
        failed_authentications_per_minute: Rate of failed authentications, per address.
        max_streams_per_principal: Open streams and sockets per principal.
        max_streams: Open streams and sockets of the process.
        max_sessions_per_principal: Sessions per principal that have not ended.
        cost_per_day_usd: Spending per principal and UTC day, in dollars. None: no limit. Then no more messages are accepted, but running cycles continue. Needs
            a store.
        tenant_cost_per_day_usd: The same for all principals of a tenant together.
        cost_per_cycle_usd: What a cycle that a message starts may cost, with its sub-agents, in dollars. Without room for another request it ends
            with `budget_exceeded`. None: no limit.
        max_frame_bytes: Size of an incoming socket frame.
        max_subscriptions: Subscriptions per socket.
        commands_per_second: Command rate per socket.
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
    cost_per_day_usd: Dollars | None = None
    tenant_cost_per_day_usd: Dollars | None = None
    cost_per_cycle_usd: Dollars | None = None
    max_frame_bytes: int = _MIB
    max_subscriptions: int = 64
    commands_per_second: int = 100

    @property
    def has_day_budgets(self) -> bool:
        """Whether a daily budget is set."""
        return self.cost_per_day_usd is not None or self.tenant_cost_per_day_usd is not None

    def __attrs_post_init__(self) -> None:
        faults = [
            f"{name} is {repr_of(value):.80}: expected a whole number from {least}{up_to}"
            for name, value in attrs.asdict(self, recurse=False).items()
            if name not in _DOLLARS
            for least, most in [_BOUNDS.get(name, (1, math.inf))]
            for up_to in ["" if most == math.inf else f" to {most}"]
            if type(value) is not int or not least <= value <= most
        ]
        faults += faults_of_fields(self, Limits, *_DOLLARS)
        OptionError.raise_for(faults)


_DOLLARS: Final = ("cost_per_day_usd", "tenant_cost_per_day_usd", "cost_per_cycle_usd")


_BOUNDS: Final[dict[str, tuple[int, float]]] = {
    "max_attachments": (0, math.inf),
    "max_attachment_name": (8, 255),
    "max_message_bytes": (1, MAX_PROMPT_BYTES),
    "max_metadata_bytes": (0, 64 * _KIB),
    "max_json_depth": (1, MAX_LEVELS),
}
"""Valid ranges of limits other than "any whole number >= 1". File systems limit names to 255 bytes."""


HOST_LIMITS: Final[Mapping[str, int | None]] = MappingProxyType(
    {one.name: one.default for one in attrs.fields(Limits)}
)
"""Default limits of a host."""
