"""Mutants of what goes to bytes and back: a state that comes back as another one, or that half comes back."""

from typing import Final

from tests.mutants.mutant import Mutant

_CODEC: Final = "tests/core/test_state_codec.py"
_SHAPES: Final = "tests/core/test_shapes.py"
_SAME: Final = "the same state is the same bytes"
_WHOLE: Final = "nothing is half read"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="sets are written in their own order",
        breaks=_SAME,
        file="core/wire/shapes.py",
        old="            return sorted(items, key=written)\n",
        new="            return items\n",
        killed_by=f"{_CODEC}::test_the_same_state_is_the_same_bytes_in_every_process",
    ),
    Mutant(
        name="a field that is not known is passed over",
        breaks=_WHOLE,
        file="core/wire/shapes.py",
        old="                elif name != tag_field:\n",
        new="                elif False:\n",
        killed_by=f"{_CODEC}::test_what_was_not_written_is_not_read",
    ),
    Mutant(
        name="of a key that stands twice the last one counts",
        breaks=_WHOLE,
        file="core/wire/json_text.py",
        old="        if msgspec.json.encode(plain) != given:\n",
        new="        if False:\n",
        killed_by=f"{_CODEC}::test_text_that_is_no_such_json_is_refused",
    ),
    Mutant(
        name="each call writes its spec",
        breaks="bytes grow as the state does",
        file="core/session/state_shapes.py",
        old="            number = self._by_bytes.setdefault(form, len(self.specs))\n",
        new="            number = len(self.specs)\n",
        killed_by=f"{_CODEC}::test_equal_specs_are_one_however_they_came",
    ),
    Mutant(
        name="fields of a plugin's state get lost without a word",
        breaks=_WHOLE,
        file="core/session/state_shapes.py",
        old="            or _left_out(plain, written_state(state))\n",
        new="",
        killed_by=f"{_CODEC}::test_stored_plugins_are_read_strictly",
    ),
    Mutant(
        name="the state of another version is taken as it is",
        breaks="another version migrates",
        file="core/session/state_shapes.py",
        old="        if before != member.version:\n",
        new="        if False:\n",
        killed_by=f"{_CODEC}::test_a_state_of_another_version_is_migrated",
    ),
    Mutant(
        name="a mapping comes back sorted",
        breaks="the rest of the life is the same",
        file="core/wire/shapes.py",
        old="for name, item in expected_kind(dict, plain).items())\n",
        new="for name, item in sorted(expect(dict, plain).items()))\n",
        killed_by=f"{_SHAPES}::test_what_has_no_order_is_written_sorted",
    ),
)
