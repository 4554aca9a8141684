"""Mutants of what is added to the requests of a turn, and of the pictures in results."""

from typing import Final

from tests.mutants.mutant import Mutant, scenario

_SAME: Final = "all attempts at a turn have the same context (8.3.5, K12)"
_COUNTS: Final = "context counts for budget and compaction (8.16, K12)"
_STOPS: Final = "an abort while context is gathered leaves nothing (8.16, K12)"
_RULES: Final = "what may not be added is left out (8.3.5)"
_PICTURES: Final = "a picture is shown where it can be, and words are read elsewhere (11.2, K4)"
_CORE: Final = "tests/core/test_gathering.py"
_SHELL: Final = "tests/runtime/test_context.py"
_WIRES: Final = "tests/providers/test_images_in_results.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a retry gathers anew",
        breaks=_SAME,
        file="core/session/context.py",
        old="    if cycle.context is not None:\n        return False\n",
        new="    if cycle.context is not None and not cycle.attempts.number > 1:\n        return False\n",
        killed_by=scenario("context_gathered"),
    ),
    Mutant(
        name="a turn goes on with the context of the one before",
        breaks=_SAME,
        file="core/session/cycle.py",
        old="handed=None, context=None\n",
        new="handed=None\n",
        killed_by=scenario("context_gathered"),
    ),
    Mutant(
        name="a request is reserved without its context",
        breaks=_COUNTS,
        file="core/session/cycle.py",
        old=", added_tokens=context_tokens(data)\n",
        new="\n",
        killed_by=scenario("context_too_dear"),
    ),
    Mutant(
        name="context makes no summary due",
        breaks=_COUNTS,
        file="core/session/compaction.py",
        old="    added = context_tokens(data)\n",
        new="    added = 0\n",
        killed_by=scenario("context_counts"),
    ),
    Mutant(
        name="the context of a turn is counted again in the next one",
        breaks=_COUNTS,
        file="core/session/budget.py",
        old="added_tokens=context_tokens(data))\n",
        new="added_tokens=0)\n",
        killed_by=f"{_CORE}::test_nothing_is_counted_twice",
    ),
    Mutant(
        name="an abort forgets what is gathered",
        breaks=_STOPS,
        file="core/session/teardown.py",
        old="        stopped = cancel_gathering(step)\n",
        new="        pass\n",
        killed_by=scenario("context_broken_off"),
    ),
    Mutant(
        name="results are added to a request",
        breaks=_RULES,
        file="runtime/context.py",
        old="    if not isinstance(message, UserMessage):\n",
        new="    if not hasattr(message, 'results') and not isinstance(message, UserMessage):\n",
        killed_by=_SHELL,
    ),
    Mutant(
        name="what was said on another way is still known",
        breaks=_RULES,
        file="runtime/context.py",
        old="        if not longer:\n            self._said = set()\n",
        new="",
        killed_by=f"{_SHELL}::test_what_a_conversation_says_is_known_as_it_grows_and_where_it_goes_another_way",
    ),
    Mutant(
        name="equal context is made anew",
        breaks="what is kept of a conversation for a wire is kept (8.16)",
        file="runtime/context.py",
        old="        self._earlier = {one: one for one in (*front, *end)}\n",
        new="        self._earlier = {}\n",
        killed_by=f"{_SHELL}::test_the_conversation_is_not_encoded_anew",
    ),
    Mutant(
        name="cache points stay where they were",
        breaks="cache points are moved by what stands in front (8.16)",
        file="runtime/context.py",
        old="            point + len(front) if isinstance",
        new="            point if isinstance",
        killed_by=f"{_SHELL}::test_cache_points_are_moved_by_what_stands_in_front",
    ),
    Mutant(
        name="Gemini 2 is sent parts in a response",
        breaks=_PICTURES,
        file="providers/gemini_request.py",
        old="_SHOWS_FROM: Final = 3\n",
        new="_SHOWS_FROM: Final = 2\n",
        killed_by=_WIRES,
    ),
    Mutant(
        name="a failure is sent with pictures",
        breaks=_PICTURES,
        file="providers/wire.py",
        old="        and not result.is_error\n",
        new="",
        killed_by=_WIRES,
    ),
    Mutant(
        name="pictures of a result cost nothing",
        breaks=_PICTURES,
        file="core/policy/estimates.py",
        old=" + len(result.images) * _IMAGE_SIZE",
        new="",
        killed_by="tests/core/test_images_in_results.py",
    ),
)
