"""Mutants of the providers: what is kept of a conversation, and what a format is carried out with."""

from typing import Final

from tests.mutants.mutant import Mutant

_KEPT: Final = "what a provider keeps of a conversation never shows (7.13)"
_GROUPING: Final = "tests/providers/test_grouping.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="what is kept of another conversation goes out",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="        return all(map(operator.is_, self._last[:known], messages[:known]))\n",
        new="        return True\n",
        killed_by=f"{_GROUPING}::test_equal_messages_are_not_the_same",
    ),
    Mutant(
        name="equal messages are taken for the same",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="all(map(operator.is_, ",
        new="all(map(operator.eq, ",
        killed_by=f"{_GROUPING}::test_equal_messages_are_not_the_same",
    ),
    Mutant(
        name="a long piece overtakes short ones",
        breaks=_KEPT,
        file="providers/grouping.py",
        old="            if self._short and (is_long or len(self._short) >= _BLOCK_PIECES):\n",
        new="            if self._short and len(self._short) >= _BLOCK_PIECES:\n",
        killed_by=f"{_GROUPING}::test_long_and_short_pieces_stay_in_order",
    ),
    Mutant(
        name="any longer log has grown from any other",
        breaks=_KEPT,
        file="core/append_only.py",
        old="return self._items is older._items and self._length >= older._length",
        new="return self._length >= older._length",
        killed_by="tests/core/test_append_only.py::test_what_a_log_grew_from_is_its_beginning",
    ),
)
