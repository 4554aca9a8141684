"""Mutants of a host's life: what it keeps of its sessions, who wakes them, whether it is ready, and how its time is shared when it closes."""

from typing import Final

from tests.mutants.mutant import Mutant

_META: Final = "metadata of a session is kept with it, and only so much"
_LOOK: Final = "who inspects wakes nothing, and sees their tenant alone"
_READY: Final = "readiness is asked once for all, and holds up no one"
_CLOSE: Final = "a drain and its close have one budget"
_WINDOW: Final = "the window is the profile's, else the model's, and no guess"
_METADATA: Final = "tests/host/test_metadata.py"
_WHOLE: Final = "tests/host/test_a_host_as_a_whole.py"
_INSPECT: Final = "tests/gateway/test_inspection.py"
_CLOSES: Final = "tests/gateway/test_an_application_that_closes.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- metadata
    Mutant(
        name="a session that wakes forgets what was said of it",
        breaks=_META,
        file="host/host_sessions.py",
        old="options_of_profile(self.profiles, profile, context, metadata=metadata)\n        try:\n            session = await self.supervisor.resume",
        new="options_of_profile(self.profiles, profile, context)\n        try:\n            session = await self.supervisor.resume",
        killed_by=f"{_METADATA}::test_metadata_lives_as_long_as_its_session",
    ),
    Mutant(
        name="metadata of a message that creates its session is dropped",
        breaks=_META,
        file="host/carrying.py",
        old="self._profile, context, metadata=incoming.request.metadata\n",
        new="self._profile, context\n",
        killed_by=f"{_METADATA}::test_metadata_lives_as_long_as_its_session",
    ),
    Mutant(
        name="metadata of any size is kept",
        breaks=_META,
        file="host/metadata.py",
        old="        if len(canonical_json(thawed(metadata))) <= most:\n            return\n",
        new="        return\n",
        killed_by=f"{_METADATA}::test_what_is_no_metadata_is_refused",
    ),
    Mutant(
        name="metadata that is no JSON is kept",
        breaks=_META,
        file="host/metadata.py",
        old="        if fault is not None:\n",
        new="        if fault is not None and not metadata:\n",
        killed_by=f"{_METADATA}::test_what_is_no_metadata_is_refused",
    ),
    # --- inspection
    Mutant(
        name="a look at a conversation wakes its session",
        breaks=_LOOK,
        file="host/host_sessions.py",
        old="            messages = () if phase_of(session) in (ASLEEP, ENDED) else await session.messages()\n",
        new="            messages = await session.messages()\n",
        killed_by=f"{_INSPECT}::test_one_that_sleeps_beside_its_handle_sleeps_on",
    ),
    Mutant(
        name="a look at a stored session is done without the plugins of its profile",
        breaks=_LOOK,
        file="host/host_sessions.py",
        old="        return (await options_of_profile(self.profiles, profile, context)).plugins\n",
        new="        return ()\n",
        killed_by=f"{_INSPECT}::test_a_look_finds_the_plugins_of_its_profile",
    ),
    Mutant(
        name="an inspector that is off is there all the same",
        breaks=_LOOK,
        file="gateway/app.py",
        old='if route.scope != "inspect"',
        new='if route.scope != "inspects"',
        killed_by=f"{_INSPECT}::test_an_inspector_that_is_off_is_as_unknown_as_any_path",
    ),
    # --- readiness
    Mutant(
        name="each caller runs all checks",
        breaks=_READY,
        file="host/readiness.py",
        old="        if check_run is None or check_run.ended.is_set():\n",
        new="        if check_run is None or check_run.names:\n",
        killed_by=f"{_WHOLE}::test_who_asks_meanwhile_is_given_the_same_answer",
    ),
    Mutant(
        name="a check that does not come back is run again on top of itself",
        breaks=_READY,
        file="host/readiness.py",
        old="            self._stuck.add(name)\n",
        new="",
        killed_by=f"{_WHOLE}::test_a_check_that_does_not_come_back_holds_up_no_other",
    ),
    Mutant(
        name="a store that gives is ready, whether it takes or not",
        breaks=_READY,
        file="runtime/keeping.py",
        old="        if self.store.is_immediate:\n            self.store.beat(self.node)\n        else:\n            await self.write(partial(self.store.beat, self.node))\n        await self.read(",
        new="        await self.read(",
        killed_by=f"{_WHOLE}::test_a_store_that_takes_nothing_is_not_ready",
    ),
    Mutant(
        name="who waits for checks of a host that went down waits for ever",
        breaks=_READY,
        file="host/readiness.py",
        old="            self.close()\n            raise\n",
        new="            raise\n",
        killed_by=f"{_WHOLE}::test_no_one_waits_for_checks_whose_nursery_was_cancelled",
    ),
    # --- the window
    Mutant(
        name="a window that is assumed is told as known",
        breaks=_WINDOW,
        file="runtime/glancing.py",
        old="    return None if facts.window_is_assumed else facts.context_window\n",
        new="    return facts.context_window\n",
        killed_by=f"{_WHOLE}::test_the_window_is_the_profiles_else_the_models",
    ),
    # --- closing
    Mutant(
        name="a drain and the close behind it have a budget each",
        breaks=_CLOSE,
        file="host/host.py",
        old="        if self._plan is None:\n",
        new="        if self._plan is None or self._plan.done_by:\n",
        killed_by=f"{_CLOSES}::test_a_drain_and_the_close_behind_it_have_one_budget",
    ),
    Mutant(
        name="behind a second signal cycles are waited for by the close",
        breaks=_CLOSE,
        file="gateway/app.py",
        old="            host.skip_drain()\n            raise\n",
        new="            raise\n",
        killed_by=f"{_CLOSES}::test_a_second_signal_waits_for_no_cycle",
    ),
    Mutant(
        name="a plugin that does not stop keeps the process for as long as it may",
        breaks=_CLOSE,
        file="host/opening.py",
        old="        life.stops_by = plan.done_by\n",
        new="",
        killed_by=f"{_CLOSES}::test_a_drain_and_the_close_behind_it_have_one_budget",
    ),
    Mutant(
        name="cycles leave no time for what comes behind them",
        breaks=_CLOSE,
        file="host/closing.py",
        old="        cycles_by=done_by - tail,\n",
        new="        cycles_by=done_by,\n",
        killed_by=f"{_CLOSES}::test_cycles_are_waited_for_once",
    ),
)
