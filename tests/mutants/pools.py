"""Mutants of worker pools and of `watch`, and of the tags of results."""

from typing import Final

from tests.mutants.mutant import Mutant

_ONCE: Final = "each job of a pool ends once, and is tried as often as is said (16.6)"
_PLACES: Final = "a caller that goes gives its place back (16.6)"
_FULL: Final = "a full queue does what its flags say (16.6)"
_ENDING: Final = "the end of a pool finishes what was accepted, or says what was not done (16.6)"
_DEADLOCK: Final = "a job waits for nothing of its own pool (16.6)"
_FOLLOWED: Final = "a watcher misses nothing (16.6)"
_TAGS: Final = "results carry the tag of their effect (16.6)"

_REDUCER: Final = "tests/otp/test_pooling.py"
_SCRIPTS: Final = "property_tests/otp/test_pooling.py::test_each_job_ends_once"
_POOL: Final = "tests/actors/test_pool.py"
_WATCH: Final = "tests/actors/test_watching.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- pools
    Mutant(
        name="a job is tried once too often",
        breaks=_ONCE,
        file="otp/pooling.py",
        old="    if deaths > state.flags.max_retries:\n",
        new="    if deaths > state.flags.max_retries + 1:\n",
        killed_by=f"{_REDUCER}::test_a_job_that_kills_again_and_again_is_given_up",
    ),
    Mutant(
        name="a death before the job began counts",
        breaks=_ONCE,
        file="otp/pooling.py",
        old="    deaths = job.deaths + int(signal.began)\n",
        new="    deaths = job.deaths + 1\n",
        killed_by=f"{_REDUCER}::test_a_death_before_the_job_began_is_not_its_fault",
    ),
    Mutant(
        name="a withdrawn job whose worker died is tried again",
        breaks=_ONCE,
        file="otp/pooling.py",
        old='    if worker.is_withdrawn or state.phase == "ended":\n',
        new='    if state.phase == "ended":\n',
        killed_by=f"{_REDUCER}::test_nobody_hears_of_a_withdrawn_job",
    ),
    Mutant(
        name="a place that is free waits for the others",
        breaks=_PLACES,
        file="otp/pooling.py",
        old="        if waiting is None or not _has_room(state):\n",
        new="        if waiting is None or state.queue.count or not _has_room(state):\n",
        killed_by=f"{_REDUCER}::test_each_place_that_becomes_free_goes_to_who_waits",
    ),
    Mutant(
        name="a caller that goes leaves its job behind",
        breaks=_PLACES,
        file="actors/pool.py",
        old="        finally:\n            entry.cancel()\n",
        new="        finally:\n            pass\n",
        killed_by=f"{_POOL}::test_a_caller_that_goes_gives_the_place_back",
    ),
    Mutant(
        name="a submit that was cancelled is submitted",
        breaks=_PLACES,
        file="actors/pool.py",
        old="            self._core.withdraw(entry.number)\n",
        new="            pass\n",
        killed_by=f"{_POOL}::test_a_full_queue_lets_callers_wait",
    ),
    Mutant(
        name="a pool that refuses lets wait",
        breaks=_FULL,
        file="otp/pooling.py",
        old='    if signal.may_wait and state.flags.when_full == "wait":\n',
        new="    if signal.may_wait:\n",
        killed_by=f"{_REDUCER}::test_a_full_queue_lets_wait_or_refuses",
    ),
    Mutant(
        name="the end of the block cuts everything off",
        breaks=_ENDING,
        file="actors/pool.py",
        old="        await pool.stop()\n",
        new="        await pool.stop(drain_seconds=0)\n",
        killed_by=f"{_POOL}::test_the_end_of_the_block_finishes_what_was_accepted",
    ),
    Mutant(
        name="the end of the supervisor is not heard",
        breaks=_ENDING,
        file="actors/pool_core.py",
        old="        cell_of(supervisor).watch(self, self.cut_off)\n",
        new="        pass\n",
        killed_by=f"{_POOL}::test_too_many_restarts_end_the_pool",
    ),
    Mutant(
        name="another worker is given what interrupted the process",
        breaks=_ENDING,
        file="actors/pool_core.py",
        old="meet it again.\n                self.cut_off(POOL_STOPPED)\n",
        new="meet it again.\n                pass\n",
        killed_by=f"{_POOL}::test_an_interrupt_is_met_once",
    ),
    Mutant(
        name="a job may wait for its own pool",
        breaks=_DEADLOCK,
        file="actors/pool_core.py",
        old="        return current_cell() in self._cells\n",
        new="        return False\n",
        killed_by=f"{_POOL}::test_a_job_waits_for_no_other_of_its_pool",
    ),
    # --- watch
    Mutant(
        name="an instance that ended unseen is not told",
        breaks=_FOLLOWED,
        file="actors/watching.py",
        old="        if handle is None or handle.exit_reason is not None:\n",
        new="        if handle is None:\n",
        killed_by="property_tests/actors/test_watched_children.py::test_every_life_of_a_child_is_told_once",
    ),
    Mutant(
        name="a watcher that does not read loses events in silence",
        breaks=_FOLLOWED,
        file="actors/watching.py",
        old="                self.is_too_slow = True\n",
        new="                self.is_too_slow = False\n",
        killed_by=f"{_WATCH}::test_a_watcher_that_does_not_read_is_told",
    ),
    Mutant(
        name="the end of the supervisor ends no watch",
        breaks=_FOLLOWED,
        file="actors/watching.py",
        old="        self._core.cell.watch(self, self._on_supervisor_end)\n",
        new="        pass\n",
        killed_by=f"{_WATCH}::test_giving_up_is_the_end",
    ),
    Mutant(
        name="a closed registry ends no watch",
        breaks=_FOLLOWED,
        file="actors/registry.py",
        old="            self._tell_all(None, tuple(followers.values()))\n",
        new="            pass\n",
        killed_by=f"{_WATCH}::test_a_name_that_is_held_already",
    ),
    # --- tags
    Mutant(
        name="an effect without a value says nothing, tag or no tag",
        breaks=_TAGS,
        file="actors/machine_loop.py",
        old="            elif result is not None or tag is not None:\n",
        new="            elif result is not None:\n",
        killed_by="tests/actors/test_performs.py::test_results_carry_the_tag_of_their_effect",
    ),
)
