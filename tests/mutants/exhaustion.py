"""Mutants of the bounds: what a model, a tool, a server or a file may make the process do."""

from typing import Final

from tests.mutants.mutant import Mutant

_LOOP: Final = "nothing stops the loop"
_MEMORY: Final = "nothing fills the memory"
_KEYS: Final = "no key is shown"

_BOUNDED: Final = "tests/core/test_bounded_schema.py"
_PACKED: Final = "tests/providers/test_packed_answers.py"
_NUMBERS: Final = "tests/providers/test_numbers.py"
_PIECES: Final = "tests/providers/test_many_pieces.py"
_REQUESTS: Final = "tests/sandboxes/test_hostile_requests.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a pattern costs nothing",
        breaks=_LOOP,
        file="core/values/bounded_schema.py",
        old="        work.pay_for_search(keyword, instance)\n",
        new="        pass\n",
        killed_by=f"{_BOUNDED}::test_what_would_take_for_ever_is_refused",
    ),
    Mutant(
        name="items are paid for by nobody",
        breaks=_LOOP,
        file="core/values/bounded_schema.py",
        old="        work.pay(1 + cost(work, value, instance, schema))\n",
        new="        cost(work, value, instance, schema)\n",
        killed_by=f"{_BOUNDED}::test_each_keyword_pays",
    ),
    Mutant(
        name="a packed answer is unpacked unasked",
        breaks=_MEMORY,
        file="providers/http.py",
        old="    if said not in asked or said not in _WINDOWS:\n",
        new="    if said not in _WINDOWS:\n",
        killed_by=f"{_PACKED}::test_what_nobody_asked_to_be_packed_is_refused",
    ),
    Mutant(
        name="an answer is unpacked at once",
        breaks=_MEMORY,
        file="providers/http.py",
        old="unpack.decompress(left, _UNPACKED_AT_A_TIME)",
        new="unpack.decompress(left)",
        killed_by=f"{_PACKED}::test_a_packed_answer_is_counted_as_it_is_unpacked",
    ),
    Mutant(
        name="an edit is made before it is counted",
        breaks=_MEMORY,
        file="sandboxes/editing.py",
        old="    if put <= taken or size_bytes <= max_bytes:\n",
        new="    if size_bytes <= max_bytes or not taken < 0:\n",
        killed_by=f"{_REQUESTS}::test_the_outcome_of_an_edit_is_counted_before_it_is_made",
    ),
    Mutant(
        name="the end of a line is looked for at each place",
        breaks=_LOOP,
        file="sandboxes/editing.py",
        old="                if done > end or end == begin:\n",
        new="                if done:\n",
        killed_by=f"{_REQUESTS}::test_an_edit_looks_at_each_place_once",
    ),
    Mutant(
        name="an id is shown as it came",
        breaks=_KEYS,
        file="providers/failures.py",
        old="    return None if request_id is None else scrubbed(shown(request_id), vendor.secrets) or None\n",
        new="    return request_id\n",
        killed_by=f"{_NUMBERS}::test_no_member_of_an_error_holds_the_key",
    ),
    Mutant(
        name="blanks are gathered",
        breaks=_LOOP,
        file="providers/think_tags.py",
        old="        elif len(begin) < len(self._held):\n",
        new="        elif False:\n",
        killed_by=f"{_PIECES}::test_blanks_are_not_gathered_and_stripped_again_and_again",
    ),
    Mutant(
        name="a short patience begins with a report",
        breaks="`stall_seconds` counts from any value above 0 (14.2)",
        file="core/session/stalls.py",
        old="stalls.stall_ms < FIRST_REPORT_MS:\n",
        new="stalls.stall_ms < 0:\n",
        killed_by="tests/runtime/test_silence.py::test_a_short_patience_counts_from_the_first_chunk",
    ),
)
