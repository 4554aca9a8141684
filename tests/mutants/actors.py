"""Mutants of the actors: mailboxes, timers, holding, passivation, addresses, names, monitors, and what they perform."""

from typing import Final

from tests.mutants.mutant import Mutant

_ORDER: Final = "a state machine handles events in the one order (2.2)"
_EPOCHS: Final = "a cancelled or replaced timer is never delivered (2.2)"
_TIMERS: Final = "timers come through the mailbox, and time counts from the handler's end (2.6)"
_ROOM: Final = "a full mailbox does what its policy says (2.4)"
_HELD: Final = "a held actor takes nothing (2.9)"
_PASSIVATED: Final = (
    "what was accepted through an address and not handled reaches the next life, in order (2.7)"
)
_ADDRESS: Final = "an address does what a handle does (2.7)"
_GONE: Final = "`Down` means gone (2.5)"
_LEAKS: Final = "who has ended leaves nothing behind (2.5)"
_REGISTRY: Final = "a registry as a child survives a restart, and its listeners hear changes in order (2.5)"
_TERMINATE: Final = "`terminate` runs once, on every end but a kill (2.6)"

_BUSY: Final = "tests/actors/test_busy_timers.py"
_CLOCK: Final = "tests/otp/test_statem_timers.py"
_PASSING: Final = "tests/actors/test_passivation.py"
_MAILBOX: Final = "tests/actors/test_mailbox.py"
_ADDRESSES: Final = "tests/actors/test_addresses.py"
_NAMES: Final = "tests/actors/test_registry.py"
_SIGNALS: Final = "tests/actors/test_signals.py"
_PERFORMS: Final = "tests/actors/test_performs.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- the engine
    Mutant(
        name="replayed events stand behind the queue",
        breaks=_ORDER,
        file="otp/turns.py",
        old="            self._queue.extendleft(reversed(self._postponed))\n",
        new="            self._queue.extend(self._postponed)\n",
        killed_by="tests/otp/test_statem_order.py::test_inserted_and_replayed_come_before_the_rest_of_the_queue",
    ),
    Mutant(
        name="postponed events are replayed in the reverse order",
        breaks=_ORDER,
        file="otp/turns.py",
        old="            self._queue.extendleft(reversed(self._postponed))\n",
        new="            self._queue.extendleft(self._postponed)\n",
        killed_by="tests/actors/test_machine_order.py::test_master_order",
    ),
    Mutant(
        name="no epoch check",
        breaks=_EPOCHS,
        file="otp/statem.py",
        old="if timer is None or timer.epoch != event.epoch or engine.stopped is not None:",
        new="if timer is None or engine.stopped is not None:",
        killed_by=f"{_BUSY}::test_a_timer_that_lies_in_the_mailbox_can_be_cancelled",
    ),
    Mutant(
        name="seconds count from the beginning of the step",
        breaks=_TIMERS,
        file="otp/turns.py",
        old="            since = self.now if self.clock is None else self.clock()\n",
        new="            since = self.now\n",
        killed_by=f"{_BUSY}::test_the_time_counts_from_the_end_of_its_own_handler",
    ),
    Mutant(
        name="a timeout of zero is armed",
        breaks=_ORDER,
        file="otp/turns.py",
        old="                due_seconds = self.now\n",
        new="                pass\n",
        killed_by=f"{_CLOCK}::test_due_at_once_with_a_clock",
    ),
    # --- timers in the mailbox
    Mutant(
        name="a timer overtakes what was there before it was due",
        breaks=_TIMERS,
        file="actors/deadlines.py",
        old="                self._mailbox.put_timer(fired)\n",
        new="                self._mailbox.put_timers_first([fired])\n",
        killed_by=f"{_BUSY}::test_timers_and_messages_come_in_their_order",
    ),
    Mutant(
        name="a timer waits for an empty mailbox",
        breaks=_TIMERS,
        file="actors/mailbox.py",
        old="        if self._clockwork is not None:\n            self._clockwork.collect()\n",
        new="",
        killed_by=f"{_BUSY}::test_timers_and_messages_come_in_their_order",
    ),
    Mutant(
        name="due timers wait behind what was suspended",
        breaks=_TIMERS,
        file="actors/deadlines.py",
        old="        self._mailbox.put_timers_first(self._take_due())\n",
        new="        self.collect()\n",
        killed_by=f"{_BUSY}::test_due_timers_come_first_after_a_resume",
    ),
    Mutant(
        name="a held actor takes timers",
        breaks=_HELD,
        file="actors/mailbox.py",
        old="        if self._held:\n            return NO_MESSAGE\n        if self._control:",
        new="        if self._held and self._outside:\n            return NO_MESSAGE\n        if self._control:",
        killed_by=f"{_BUSY}::test_a_held_actor_takes_no_timer",
    ),
    # --- room
    Mutant(
        name="a full blocking mailbox that closes wakes one sender",
        breaks=_ROOM,
        file="actors/mailbox.py",
        old="            self._waiting_for_room.unpark_all()\n",
        new="            self._waiting_for_room.unpark()\n",
        killed_by=f"{_MAILBOX}::test_close_lets_all_go_who_wait_for_room",
    ),
    Mutant(
        name="a notice takes the place of a message",
        breaks=_ROOM,
        file="actors/mailbox.py",
        old="        if via is None:\n            self.via = None\n            return message\n",
        new="",
        killed_by=f"{_MAILBOX}::test_taking_a_message_makes_room",
    ),
    # --- passivation and addresses
    Mutant(
        name="what was postponed comes behind what was not read",
        breaks=_PASSIVATED,
        file="actors/traced.py",
        old="        for event, via in (*came, *waiting):\n",
        new="        for event, via in (*waiting, *came):\n",
        killed_by=f"{_PASSING}::test_postponed_queued_and_unread_come_in_their_order",
    ),
    Mutant(
        name="postponed events have no origin",
        breaks=_PASSIVATED,
        file="actors/traced.py",
        old="        elif engine.postponed is not before and any(each is event for each in reversed(engine.postponed)):\n",
        new="        elif engine.postponed is before:\n",
        killed_by=f"{_PASSING}::test_two_equal_messages_are_two",
    ),
    Mutant(
        name="an event postponed in the last step is lost",
        breaks=_PASSIVATED,
        file="actors/traced.py",
        old="            self._add(event, via)\n        elif not",
        new="            pass\n        elif not",
        killed_by=f"{_PASSING}::test_an_event_that_is_postponed_in_the_step_that_ends",
    ),
    Mutant(
        name="what was handed back may be refused",
        breaks=_PASSIVATED,
        file="actors/address.py",
        old="bounded=not is_owed and not mailbox.lets_wait)",
        new="bounded=not mailbox.lets_wait)",
        killed_by=f"{_PASSING}::test_more_is_handed_back_than_the_mailbox_holds",
    ),
    Mutant(
        name="who is passivated before its activation returned is not woken",
        breaks=_PASSIVATED,
        file="actors/registry.py",
        old="                    self._activating[key] = True\n",
        new="                    pass\n",
        killed_by=f"{_PASSING}::test_each_life_is_passivated_before_its_activation_returns",
    ),
    Mutant(
        name="a call through an address does not wait for room",
        breaks=_ADDRESS,
        file="actors/address.py",
        old="                await self._wait_for_room()\n                self._send(event)\n",
        new="                self._send(event)\n",
        killed_by=f"{_ADDRESSES}::test_call_on_a_full_mailbox_that_blocks_waits_for_room[address]",
    ),
    Mutant(
        name="messages held for a worker raise where it starts",
        breaks=_ADDRESS,
        file="actors/address.py",
        old="        mailbox = cell.mailbox\n",
        new="        mailbox = mailbox_of(cell)\n",
        killed_by=f"{_ADDRESSES}::test_messages_held_for_a_worker_end_nobody",
    ),
    # --- names, monitors, registries
    Mutant(
        name="a name is freed after `Down`",
        breaks=_GONE,
        file="actors/handle.py",
        old="""        for release in (releases or {}).values():
            call_guarded(log_bug, release)
        watchers, self._watchers = self._watchers, None
        for tell in (watchers or {}).values():
            call_guarded(log_bug, tell, reason)
""",
        new="""        watchers, self._watchers = self._watchers, None
        for tell in (watchers or {}).values():
            call_guarded(log_bug, tell, reason)
        for release in (releases or {}).values():
            call_guarded(log_bug, release)
""",
        killed_by=f"{_NAMES}::test_a_name_is_free_when_its_down_is_told",
    ),
    Mutant(
        name="a monitor outlives whoever is told",
        breaks=_LEAKS,
        file="actors/monitor.py",
        old="            self._target.on_release(self, self._stop)\n",
        new="            pass\n",
        killed_by=f"{_SIGNALS}::test_monitors_go_with_whoever_is_told",
    ),
    Mutant(
        name="a registry remembers all who ever held a key",
        breaks=_LEAKS,
        file="actors/registry.py",
        old="        if len(self._last) > self._last_bound:\n",
        new="        if not self._last:\n",
        killed_by=f"{_NAMES}::test_a_registry_forgets_who_has_ended",
    ),
    Mutant(
        name="a registry stays closed",
        breaks=_REGISTRY,
        file="actors/registry.py",
        old="        self._closed = False\n        with self:\n",
        new="        with self:\n",
        killed_by=f"{_NAMES}::test_a_registry_as_a_child_is_restarted",
    ),
    Mutant(
        name="a change that a listener makes is told at once",
        breaks=_REGISTRY,
        file="actors/registry.py",
        old="        if self._telling is not None:  # a listener did this: it is told behind what all of them are told now\n            return\n",
        new="",
        killed_by=f"{_NAMES}::test_all_listeners_hear_changes_in_their_order",
    ),
    # --- what is performed
    Mutant(
        name="a perform that fails in its clean-up takes the machine along",
        breaks=_TERMINATE,
        file="actors/machine_loop.py",
        old='    return BaseExceptionGroup("not to be caught", passing), bug\n',
        new="    return error, bug\n",
        killed_by=f"{_PERFORMS}::test_terminate_runs_though_a_perform_fails_in_its_clean_up",
    ),
    Mutant(
        name="`ActorExit` beside an error is an exit",
        breaks=_TERMINATE,
        file="actors/machine_loop.py",
        old="            if all(isinstance(part, ActorExit) for part in parts):\n",
        new="            if any(isinstance(part, ActorExit) for part in parts):\n",
        killed_by=f"{_PERFORMS}::test_whatever_a_perform_raises_is_the_reason",
    ),
)
