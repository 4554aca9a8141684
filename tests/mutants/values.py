"""Mutants of the values: what an event says, and how it stands on the wire."""

from typing import Final

from tests.mutants.mutant import Mutant

_VALUE: Final = "an event is what it says"
_WIRE: Final = "what was stored stays readable"

_CODEC: Final = "tests/core/test_codec.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="two events are equal in one place only",
        breaks=_VALUE,
        file="events/envelope.py",
        old='for name in self.__struct_fields__ if name != "meta"]',
        new="for name in self.__struct_fields__]",
        killed_by="tests/events/test_union.py::test_where_an_event_stands_is_no_part_of_what_it_says",
    ),
    Mutant(
        name="publishing writes into the event of a plugin",
        breaks=_VALUE,
        file="core/session/step_context.py",
        old="Publish(replace(event, meta=meta))",
        new='Publish(__import__("msgspec").structs.force_setattr(event, "meta", meta) or event)',
        killed_by="tests/core/test_hooking.py::test_an_event_that_a_plugin_publishes_twice_stays_as_the_plugin_made_it",
    ),
    Mutant(
        name="a field of a newer version is taken for the envelope",
        breaks=_WIRE,
        file="core/wire/codec.py",
        old='    if "meta" in document:',
        new='    if "meta" in ():',
        killed_by=f"{_CODEC}::test_what_is_new_is_kept_whole[the name that the envelope has in Python]",
    ),
    Mutant(
        name="options of an approval are written where they are the default",
        breaks=_WIRE,
        file="events/values.py",
        old="        if self.permission_options == PERMISSION_OPTIONS:\n",
        new="        if not self.permission_options:\n",
        killed_by=f"{_CODEC}::test_options_that_are_the_default_are_left_out_whoever_made_them",
    ),
)
