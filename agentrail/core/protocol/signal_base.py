"""Base classes of signals: their time, their caller, their effect."""

from typing import NewType

from agentrail.core.protocol.request import EffectId
from agentrail.structs import TaggedValue

SignalId = NewType("SignalId", str)


class Stamped(TaggedValue, frozen=True, kw_only=True):
    """The base of every signal.

    Attributes:
        at_ms: When it arrived, in milliseconds since 1970.
    """

    at_ms: int


class Asked(Stamped, frozen=True, kw_only=True):
    """A call from outside, whose caller waits for exactly one `ReplyToCaller`.

    Attributes:
        signal_id: The address of the reply.
    """

    signal_id: SignalId


class EffectOutcome(Stamped, frozen=True, kw_only=True):
    """An outcome of an effect. An outcome whose effect is no longer open is dropped and counted.

    Attributes:
        effect_id: The effect.
    """

    effect_id: EffectId


class FinalOutcome(EffectOutcome, frozen=True, kw_only=True):
    """The one outcome that an effect owes. It is the last one."""
