"""What signals have in common: their time, whom they are answered to, which effect they are of."""

from typing import NewType

from agentrail.core.protocol.request import EffectId
from agentrail.structs import TaggedValue

SignalId = NewType("SignalId", str)


class Stamped(TaggedValue, frozen=True, kw_only=True):
    """What every signal carries.

    Attributes:
        at_ms: When it arrived, in milliseconds since 1970.
    """

    at_ms: int


class Asked(Stamped, frozen=True, kw_only=True):
    """A call from outside, whose caller waits for exactly one `ReplyToCaller`.

    Attributes:
        signal_id: What the reply is addressed to.
    """

    signal_id: SignalId


class EffectOutcome(Stamped, frozen=True, kw_only=True):
    """What became of an effect. One whose id is no longer open is dropped and counted.

    Attributes:
        effect_id: The effect.
    """

    effect_id: EffectId


class FinalOutcome(EffectOutcome, frozen=True, kw_only=True):
    """The one outcome that an effect owes; nothing comes after it."""
