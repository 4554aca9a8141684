"""Linearizable acknowledgements: what users are told about their calls fits one order of these calls."""

from types import MappingProxyType
from typing import Final

from attrs import define

from agentrail.testing.simulation.facts import CallAnswered, CallAsked
from agentrail.testing.simulation.gods_eye import Checker, GodsEye, LineKey
from agentrail.testing.simulation.log import LineKind, LogLine


class Acknowledgements(Checker):
    """What users are told fits one order of their calls: each message, approval and question is a register that is set once.

    For such a register the search of Wing and Gong has a closed form, whatever the length of the window: see `_fits_one_order`.
    """

    name = "linearizable acknowledgements"
    kinds: frozenset[LineKind] = frozenset({"person"})

    def __init__(self, eye: GodsEye | None = None) -> None:
        super().__init__(eye)
        self._registers: dict[LineKey, list[_Call]] = {}
        self._open: dict[str, tuple[LineKey, _Call]] = {}

    def judge(self, line: LogLine) -> str | None:
        facts = line.facts
        if isinstance(facts, CallAsked) and facts.key and facts.request in _REGISTERED:
            key = line.session, facts.key
            call = _Call(line.at, facts.request)
            self._registers.setdefault(key, []).append(call)
            self._open[facts.id] = key, call
        elif isinstance(facts, CallAnswered) and facts.id in self._open:
            key, call = self._open.pop(facts.id)
            if facts.outcome == "unknown":
                return None  # it may take effect at any time
            call.answered_at, call.is_repeated = line.at, facts.is_repeated
            call.sets = facts.outcome == "ok"
            if call.sets:
                call.shows = call.decides or facts.says
            elif facts.code == "already_resolved" and getattr(facts.value, "by", "user") in {
                "user",
                "client",
            }:
                call.shows = facts.says
                # A node may have passed it on again, after the owner that it asked first was lost.
                own = getattr(facts.value, "user", None) == line.place and facts.says == call.decides
                call.sets = call.is_repeated = own
            if not _fits_one_order(self._registers[key]):
                said = facts.says or facts.code
                return f"{key[0]}: no order of the calls about {key[1]} explains the answer {said!r} to {facts.id}"
        return None


_MESSAGES: Final = frozenset({"prompt", "steer"})
_DECIDES: Final = MappingProxyType(
    {"approve": "approved", "reject": "rejected", "answer": "approved", "decline": "rejected"}
)
"""The status of a decision, as in `AlreadyResolved.status`."""

_REGISTERED: Final = _MESSAGES | {"receipt", *_DECIDES}


@define(eq=False)
class _Call:
    asked_at: float
    request: str
    answered_at: float = float("inf")
    shows: str | None = None
    """The value of the register that its answer shows. Empty: it is not set. None: it shows nothing."""
    sets: bool = True
    """Whether it may have set the register."""
    is_repeated: bool = False
    """Whether it may have been sent twice, so that its answer also fits another call that decided the same."""

    @property
    def decides(self) -> str:
        return _DECIDES.get(self.request, "")


def _fits_one_order(calls: list[_Call]) -> bool:
    """Whether one call could have set the register after all calls that show it empty began, and before all that show its value ended."""
    full, empty = [one for one in calls if one.shows], [one for one in calls if one.shows == ""]
    if not full:
        return True
    value = full[0].shows
    decided = [one for one in full if one.sets and one.decides and not one.is_repeated]
    if any(one.shows != value for one in full) or len(decided) > 1:
        return False
    if any(early.asked_at >= late.answered_at for early in empty for late in full):
        return False
    return any(
        all(one.asked_at <= late.answered_at for late in full)
        and all(early.asked_at <= one.answered_at for early in empty)
        for one in decided
        or [one for one in calls if one.sets and (one.request in _MESSAGES or one.decides == value)]
    )
