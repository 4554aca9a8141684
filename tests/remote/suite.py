"""Which tests of tests/runtime are the suite of `Session`, and are run once more over a `RemoteSession`, also through a node that owns nothing; and which are left out, and why.

`make nightly` runs a test that is left out all the same, and it has to fail: so the list cannot hold one that would pass. Each module of tests/runtime is
either of the suite or has a reason too.
"""

import zlib
from typing import Any, Final

import pytest

from tests.thinned import IS_NIGHTLY

HERE: Final = "here"
OVER_A_NETWORK: Final = "remote"
FORWARDED: Final = "forwarded"
"""Over a network too, and through a node that owns nothing."""

SUITE: Final = (
    "test_agents",
    "test_background_agents",
    "test_changes",
    "test_children",
    "test_client_calls",
    "test_context",
    "test_forms",
    "test_handle",
    "test_handoff",
    "test_human_approval",
    "test_looking_back",
    "test_people",
    "test_plugins",
    "test_streams",
    "test_subscriptions",
    "test_what_is_approved_runs",
    "test_wrong_types",
)
"""The modules whose tests go through the handle of a session."""

SAMPLE: Final = (
    "test_a_prompt_in_a_cycle_waits_its_turn",
    "test_content_may_be_blocks",
    "test_two_aborts_at_once_get_the_same_receipt",
    "test_stop_that_times_out_goes_on",
    "test_the_client_answers_a_call",
    "test_another_prompt_supersedes_what_waits",
    "test_a_steer_that_is_sent_again_under_its_name_happens_once",
    "test_on_a_session_that_has_ended_every_call_raises",
)
"""What of it `make test` runs too."""

FORWARDED_SAMPLE: Final = SAMPLE[:1]
"""What of that goes through another node in `make test`."""

FORWARDED_ONE_IN: Final = 8
"""CI runs one test in so many through another node, and `make nightly` all."""

ROWS: Final = "test_wrong_types"
ONE_IN: Final = 5
"""CI runs one test in so many of this table over a network, and `make nightly` all."""


CODE: Final = "takes code, or options that are code, which does not travel"
INSIDE: Final = "looks at what is behind a handle: the actor, its mailbox, its state"
AT_ONCE: Final = "counts on there being no time between a session and its reader"
FIRST: Final = "reads from the first event on, which is out before a network can have asked for it"
NEVER_CUT: Final = "a remote reader who is behind is never cut off: what it missed is asked for again"
HOST_SAYS: Final = "the host is in front of the session, and says the same with an exception of its own"
SERVER_GONE: Final = "ends the supervisor below the gateway, and with it the test's only server"

IN_SCOPE: Final = "finds the session in its store without the scope of its tenant"
NO_STORE: Final = "wants the answer of a supervisor without a store, which nodes cannot share"
EACH_STEP: Final = "cancels at each step of the scheduler, and here most of them are steps of the gateway"

OF_CODE: Final = (
    *("attach_tools", "replace_tools", "detach_tools"),
    *("update_plugin_opts", "detach_plugin", "report_tool_source"),
)
"""Calls whose arguments are code."""

LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "test_background_agents": {
        "test_agents_of_a_session_that_is_given_up_go_with_it": INSIDE,
        "test_a_crash_of_an_agent_is_never_one_of_its_session": INSIDE,
    },
    "test_changes": {
        "test_a_model_that_is_asked_is_not_forgotten": CODE,
        "test_malformed_capabilities_are_refused_by_the_models_name": CODE,
    },
    "test_children": {"test_a_child_may_no_more_than_its_parent": CODE},
    "test_client_calls": {"test_an_answer_that_is_too_long_is_refused_and_the_call_waits_on": FIRST},
    "test_context": {"test_at_every_step": EACH_STEP},
    "test_handle": {"test_every_call_is_answered_while_its_supervisor_closes": SERVER_GONE},
    "test_looking_back": {
        "test_a_fork_can_be_set_up_otherwise": CODE,
        "test_a_fork_needs_the_code_of_what_it_has": CODE,
        "test_a_session_that_works_for_another_has_no_branches": HOST_SAYS,
        "test_a_rewind_brings_back_the_tools_of_then": CODE,
        "test_a_tool_that_is_detached_during_a_rewind": CODE,
        "test_a_rewind_to_a_model_object_that_was_released": CODE,
        "test_a_session_that_works_does_not_go_back_under_it": INSIDE,
        "test_a_trimmed_journal_names_the_first_state_that_can_be_read": IN_SCOPE,
        "test_what_was_trimmed_is_said_by_its_first_number": IN_SCOPE,
        "test_what_a_session_went_back_to_is_not_trimmed_away": IN_SCOPE,
    },
    "test_plugins": {
        "test_plugins_come_and_go_between_cycles": CODE,
        "test_an_unknown_plugin_is_refused_during_a_cycle": CODE,
        "test_a_session_that_a_plugin_refuses_is_not_started": AT_ONCE,
    },
    "test_subscriptions": {"test_a_subscriber_who_does_not_read_is_cut_off": NEVER_CUT},
    "test_wrong_types": {
        "test_after_the_supervisor_closed_every_call_is_down": SERVER_GONE,
        **{f"test_an_argument_of_a_wrong_type_is_named[-{call}]": CODE for call in OF_CODE},
        **{
            f"test_an_argument_of_a_wrong_type_is_named[forwarded-{call}]": NO_STORE
            for call in ("journal", "turns", "state_at", "fork", "rewind")
        },
    },
}
"""By module and function why a test is left out: of one with parameters all of them, or those in whose name stands what is behind `[`."""

NOT_RUN: Final = frozenset({"test_at_every_step", "test_a_subscriber_who_does_not_read_is_cut_off"})
"""Those of them that would hang, or take minutes: they are not even begun."""


def over_each_road(metafunc: pytest.Metafunc) -> list[Any]:
    """Say over which roads a test is run, as values of the fixture `road`."""
    here = pytest.param(HERE, id=pytest.HIDDEN_PARAM)
    if metafunc.module.__name__.rpartition(".")[2] not in SUITE:
        return [here]
    return [
        here,
        *(
            pytest.param(
                road,
                id=road,
                marks=[pytest.mark.host("H-077")]
                + ([] if metafunc.function.__name__ in sample else [pytest.mark.check]),
            )
            for road, sample in ((OVER_A_NETWORK, SAMPLE), (FORWARDED, FORWARDED_SAMPLE))
        ),
    ]


def why_left_out(module: str, name: str) -> str | None:
    """Say why a test of a module is not to pass over a network, by its name with its parameters; None for one that is."""
    function, _, parameters = name.partition("[")
    for key, why in LEFT_OUT.get(module, {}).items():
        left_out, _, words = key.partition("[")
        if left_out == function and words in parameters:
            return why
    return None


def mark_left_out(items: list[pytest.Item]) -> None:
    """Expect those that are left out to fail; one that passes fails."""
    for item in items.copy():
        road = getattr(getattr(item, "callspec", None), "params", {}).get("road", HERE)
        if road == HERE:
            continue
        module = item.path.stem
        one_in = FORWARDED_ONE_IN if road == FORWARDED else ONE_IN if module == ROWS else 1
        # By its name, and not by counting: each worker collects another part, and must leave out the same ones.
        is_left_out = not IS_NIGHTLY and zlib.crc32(item.nodeid.encode()) % one_in > 0
        if is_left_out and item.get_closest_marker("check") is not None:
            items.remove(item)
            continue
        why = why_left_out(module, item.name)
        if why is not None:
            function = item.name.partition("[")[0]
            item.add_marker(
                pytest.mark.xfail(reason=why, strict=True, run=IS_NIGHTLY and function not in NOT_RUN)
            )
