"""Mutants of the session: core, runtime and the tools that it runs."""

from typing import Final

from tests.mutants.mutant import Mutant, scenario


def _merge_rule(name: str, old: str, new: str, prop: str, *, file: str = "core/stack/pipeline.py") -> Mutant:
    """A rule by which the answers of several plugins become one, broken; a property over random stacks sees it."""
    killed_by = f"property_tests/core/test_pipeline.py::{prop}"
    return Mutant(name=name, breaks=_MERGED, file=file, old=old, new=new, killed_by=killed_by)


_ABORT: Final = "after an abort nothing is left"
_HISTORY: Final = "a history is always valid"
_APPROVED: Final = "what you approve is what runs"
_LOST: Final = "a message accepted is never lost"
_RECONNECT: Final = "a subscriber can reconnect with a number"
_PLUGINS: Final = "no order of plugins lets a call past a guard"
_MERGED: Final = "many plugins give one answer, by the rules (5.3, 5.5)"
_ENDS: Final = "each cycle has exactly one end"
_RESTART: Final = "a session outlives the crash of its actor"

_AFTER_AN_ABORT: Final = "tests/promises/test_after_an_abort_nothing_is_left.py"
_RESUMING: Final = "tests/runtime/test_resuming.py"
_PIPELINE: Final = "tests/core/test_pipeline.py"
_RESTARTING: Final = "tests/runtime/test_restart.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- after an abort nothing is left
    Mutant(
        name="a tool is not killed",
        breaks=_ABORT,
        file="core/session/teardown.py",
        old="    calls.kill(step, ended)\n",
        new="",
        killed_by=scenario("abort_while_tools_run"),
    ),
    Mutant(
        name="a kill cancels nothing",
        breaks=_ABORT,
        file="runtime/interpreter.py",
        old="            opened.scope.cancel(reason=reason)\n",
        new="            pass\n",
        killed_by=f"{_AFTER_AN_ABORT}::test_hung_tools_are_stopped[1]",
    ),
    Mutant(
        name="a stream is not cancelled",
        breaks=_ABORT,
        file="core/session/teardown.py",
        old="    step.cancel(CancelStream(effect_id=stream.effect_id))\n",
        new="",
        killed_by=scenario("abort_while_streaming"),
    ),
    Mutant(
        name="immune tools are stopped",
        breaks=_ABORT,
        file="core/session/teardown.py",
        old='return kill == "none" or (kill == "killable" and calls.is_immune(step, state))',
        new='return kill == "none"',
        killed_by=scenario("abort_spares_immune_tools"),
        rows=(17,),
    ),
    Mutant(
        name="survivors outlive their session",
        breaks=_ABORT,
        file="core/session/teardown.py",
        old="        step.ask(KillTools(effect_ids=ids))\n    _begin_teardown(step, ids + of_agents, (), unknown)\n",
        new="        pass\n",
        killed_by=scenario("stop_with_survivors"),
    ),
    Mutant(
        name="the receipt waits for nothing",
        breaks=_ABORT,
        file="runtime/interpreter.py",
        old="            for end in ends:\n                await end.wait()\n",
        new="            await trio.lowlevel.checkpoint()\n",
        killed_by=f"{_AFTER_AN_ABORT}::test_a_tool_that_will_not_stop_is_in_the_receipt",
    ),
    Mutant(
        name="a prompt does not wait for the teardown",
        breaks=_ABORT,
        file="core/session/prompts.py",
        old="    is_free = phase is Phase.IDLE and data.teardown is None and not position and data.held is None\n"
        "    if not is_free and position >= data.config.max_prompt_queue:\n"
        '        message = f"{position} prompts wait already, at most',
        new="    is_free = phase is Phase.IDLE and not position and data.held is None\n"
        "    if not is_free and position >= data.config.max_prompt_queue:\n"
        '        message = f"{position} prompts wait already, at most',
        killed_by=scenario("prompt_during_teardown"),
        rows=(34,),
    ),
    Mutant(
        name="a dismissed crew works on",
        breaks=_ABORT,
        file="runtime/task_group.py",
        old='            scope.cancel(reason="the session has ended, or crashed")\n',
        new="            pass\n",
        killed_by=f"{_RESTARTING}::test_a_crash_in_the_middle_of_a_batch",
    ),
    Mutant(
        name="a start can be cancelled before there is somebody to kill",
        breaks=_ABORT,
        file="sandboxes/command.py",
        old="            with trio.move_on_after(program.prepare_seconds, shield=True) as preparing:\n",
        new="            with trio.move_on_after(program.prepare_seconds) as preparing:\n",
        killed_by="tests/sandboxes/test_local_commands.py"
        "::test_a_command_that_is_cancelled_while_it_starts_leaves_no_process[confined]",
    ),
    # --- a history is always valid
    Mutant(
        name="a history takes what leaves calls open",
        breaks=_HISTORY,
        file="core/values/history.py",
        old="        if not expected or came != expected:\n",
        new="        if not expected:\n",
        killed_by="tests/core/test_history.py",
    ),
    Mutant(
        name="an abort skips the synthetic results",
        breaks=_HISTORY,
        file="core/session/teardown.py",
        old="    step.data.survivors = (*step.data.survivors, *spared)\n    into_history(step)\n",
        new="    step.data.survivors = (*step.data.survivors, *spared)\n",
        killed_by=scenario("abort_while_tools_run"),
    ),
    Mutant(
        name="a crash leaves calls open",
        breaks=_HISTORY,
        file="core/session/teardown.py",
        old="        _answer_what_ran(step)\n        into_history(step)\n",
        new="        _answer_what_ran(step)\n",
        killed_by=scenario("restart_in_a_batch"),
    ),
    Mutant(
        name="two calls of one id",
        breaks=_HISTORY,
        file="core/policy/gates.py",
        old="        if not _CALL_ID.fullmatch(call_id) or call_id in used:\n",
        new="        if not _CALL_ID.fullmatch(call_id):\n",
        killed_by=scenario("call_ids_minted"),
    ),
    # --- what you approve is what runs
    Mutant(
        name="an approval runs twice",
        breaks=_APPROVED,
        file="core/session/interactions.py",
        old="    step.data.interactions = tuple(one for one in step.data.interactions if one is not interaction)\n",
        new="",
        killed_by=scenario("approve_twice"),
        rows=(54, 69, 71),
    ),
    Mutant(
        name="changed arguments run",
        breaks=_APPROVED,
        file="runtime/tool_runner.py",
        old="    if hash_arguments(effect.arguments) != effect.arguments_hash:\n        return None\n",
        new="",
        killed_by="tests/runtime/test_tools_at_work.py::test_arguments_that_changed_after_the_check_are_not_run",
    ),
    Mutant(
        name="edited arguments are not judged",
        breaks=_APPROVED,
        file="core/session/decisions.py",
        old="    if faults:\n        message = (\n",
        new="    if not faults and faults:\n        message = (\n",
        killed_by=scenario("approval_edited"),
    ),
    Mutant(
        name="a command approved always approves its whole program",
        breaks=_APPROVED,
        file="core/session/rules.py",
        old='    return f"{program} {words[1]}" if len(words) > 1 and _PLAIN_WORD.fullmatch(words[1]) else command\n',
        new="    return program\n",
        killed_by=scenario("approval_always"),
    ),
    Mutant(
        name="an approval is forgotten by a restart",
        breaks=_APPROVED,
        file="core/session/teardown.py",
        old="    interactions.rearm(step)\n",
        new="    step.data.interactions = ()\n",
        killed_by=scenario("approval_survives_a_restart"),
        rows=(68,),
    ),
    # --- a message accepted is never lost
    Mutant(
        name="steers are lost by an abort",
        breaks=_LOST,
        file="core/session/teardown.py",
        old="_break_off(step, signal.reason, signal.kill_tools, children=signal.children)\n    requeue_steers(step)\n",
        new="_break_off(step, signal.reason, signal.kill_tools, children=signal.children)\n    step.data.steers = ()\n",
        killed_by=scenario("steers_at_an_abort"),
    ),
    Mutant(
        name="a queue is dropped in silence",
        breaks=_LOST,
        file="core/session/cycle.py",
        old="        step.publish(PromptDropped(ref=prompt.ref, content=prompt.content))\n",
        new="",
        killed_by=scenario("abort_clears_queue"),
    ),
    Mutant(
        name="only the last steer is heard",
        breaks=_LOST,
        file="core/session/cycle.py",
        old='"\\n\\n".join(steer.text for steer in steers)',
        new="steers[-1].text",
        killed_by=scenario("steers_merge_at_the_gap"),
    ),
    Mutant(
        name="a message is taken twice",
        breaks=_LOST,
        file="core/session/receipts.py",
        old="    return known.receipt\n",
        new="    return None\n",
        killed_by=scenario("client_ids"),
        rows=(11,),
    ),
    # --- a subscriber can reconnect with a number
    Mutant(
        name="one event is replayed twice",
        breaks=_RECONNECT,
        file="runtime/event_bus.py",
        old="for seq in range(after + 1, last.seq + 1))",
        new="for seq in range(after or 1, last.seq + 1))",
        killed_by=f"{_RESUMING}::test_after_a_number_comes_all_that_follows_it",
        rows=(77, 89),
    ),
    Mutant(
        name="a loss is not told",
        breaks=_RECONNECT,
        file="runtime/event_bus.py",
        old="        return after is not None and after < self.last_seq - len(self._kept)\n",
        new="        return False\n",
        killed_by=f"{_RESUMING}::test_what_is_kept_no_longer_is_named",
        rows=(77,),
    ),
    Mutant(
        name="a slow subscriber is cut before its deltas are",
        breaks=_RECONNECT,
        file="runtime/subscription.py",
        old="if len(self._buffer) >= self._limit and not self._make_room():",
        new="if len(self._buffer) >= self._limit:",
        killed_by="tests/runtime/test_subscriptions.py::test_a_slow_subscriber_loses_deltas_first",
        rows=(85,),
    ),
    Mutant(
        name="who reads a session that sleeps does not hold it",
        breaks=_RECONNECT,
        file="runtime/subscription.py",
        old="        if self._prepare is None:  # else it holds",
        new="        self._prepare = None\n        if self._prepare is None:  # else it holds",
        killed_by="tests/runtime/test_sleeping.py::test_an_approval_whose_time_is_over_wakes_it",
    ),
    # --- no order of plugins lets a call past a guard
    Mutant(
        name="a rewrite is not judged again",
        breaks=_PLUGINS,
        file="core/stack/pipeline.py",
        old="return bool(self.out.rewritten_by) and (decision is None or isinstance(decision.action, Skip))",
        new="return False",
        killed_by=f"{_PIPELINE}::test_a_rewrite_after_a_guard_brings_the_guard_back",
        rows=(105, 115),
    ),
    Mutant(
        name="a rewrite need not fit the schema",
        breaks=_PLUGINS,
        file="core/stack/pipeline.py",
        old="        if self.out.is_fit or self.fit is None:\n",
        new="        if True:\n",
        killed_by=f"{_PIPELINE}::test_rewritten_arguments_must_fit_the_schema_before_any_guard_sees_them",
        rows=(111,),
    ),
    Mutant(
        name="a guard that fails lets calls pass",
        breaks=_PLUGINS,
        file="core/stack/pipeline.py",
        old='if member.on_error == "closed" else None',
        new='if member.on_error == "never" else None',
        killed_by=f"{_PIPELINE}::test_a_closed_plugin_refuses_each_hook_in_its_way",
    ),
    Mutant(
        name="a block does not stop the call",
        breaks=_PLUGINS,
        file="core/session/call_gates.py",
        old="            return calls.answer(step, state, reason, blocked)[0]\n",
        new="            return state\n",
        killed_by="tests/runtime/test_plugins.py::test_a_call_that_a_plugin_blocks_is_not_run",
    ),
    # --- many plugins give one answer, by the rules
    _merge_rule(
        "the highest priority is asked first",
        "sorted(members, key=lambda member: member.priority)",
        "sorted(members, key=lambda member: -member.priority)",
        "test_a_short_circuit_really_stops_the_rest",
        file="core/stack/loading.py",
    ),
    _merge_rule(
        "plugins of one priority are asked by their names",
        "sorted(members, key=lambda member: member.priority)",
        "sorted(members, key=lambda member: (member.priority, member.name))",
        "test_equal_priorities_are_asked_in_the_order_of_registration",
        file="core/stack/loading.py",
    ),
    _merge_rule(
        "a short circuit does not stop the rest",
        "return bool(rounds) and isinstance(action, RequireApproval)\n",
        "return True\n",
        "test_a_short_circuit_really_stops_the_rest",
    ),
    _merge_rule(
        "only the last intervention is heard",
        "self._change(interventions=(*self.out.interventions, injected))",
        "self._change(interventions=(injected,))",
        "test_interventions_are_all_joined_in_order",
    ),
    _merge_rule(
        "interventions are joined the other way round",
        "self._change(interventions=(*self.out.interventions, injected))",
        "self._change(interventions=(injected, *self.out.interventions))",
        "test_interventions_are_all_joined_in_order",
    ),
    _merge_rule(
        "the first switch wins",
        "self._change(switch=switch_of(action, member.name))",
        "self._change(switch=self.out.switch or switch_of(action, member.name))",
        "test_the_last_one_wins",
    ),
    _merge_rule(
        "the first rewrite wins",
        "        if same_json(arguments, event.arguments):\n",
        "        if self.out.rewritten_by or same_json(arguments, event.arguments):\n",
        "test_the_last_one_wins",
    ),
    _merge_rule(
        "the first result wins",
        "        event = msgspec.structs.replace(event, result=result)\n",
        "        event = event if self.out.replaced_by else msgspec.structs.replace(event, result=result)\n",
        "test_the_last_one_wins",
    ),
    _merge_rule(
        "the first response wins",
        "        event = msgspec.structs.replace(event, message=event.message.with_text(text))\n",
        "        if not self.out.replaced_by:\n"
        "            event = msgspec.structs.replace(event, message=event.message.with_text(text))\n",
        "test_the_last_one_wins",
    ),
    _merge_rule(
        "the first word on a section counts",
        "MappingProxyType({**self.out.context, **sections})",
        "MappingProxyType({**sections, **self.out.context})",
        "test_of_sections_and_hints_the_last_word_counts_and_plugin_requests_are_all_run",
    ),
    _merge_rule(
        "the first hint counts",
        "self._change(hints=msgspec.structs.replace(self.out.hints, **said))",
        "self._change(hints=self.out.hints if self.out.hints != NO_HINTS else Hints(**said))",
        "test_of_sections_and_hints_the_last_word_counts_and_plugin_requests_are_all_run",
    ),
    _merge_rule(
        "an plugin_request replaces those before it",
        "self._change(plugin_requests=(*self.out.plugin_requests, plugin_request))",
        "self._change(plugin_requests=(plugin_request,))",
        "test_of_sections_and_hints_the_last_word_counts_and_plugin_requests_are_all_run",
    ),
    _merge_rule(
        "emits come the other way round",
        "self._change(events=(*self.out.events, *events))",
        "self._change(events=(*events, *self.out.events))",
        "test_emits_keep_their_order_and_what_is_ignored_is_said",
    ),
    _merge_rule(
        "what is ignored is not said",
        "            self._ignore(member, type(action).__name__)\n",
        "",
        "test_emits_keep_their_order_and_what_is_ignored_is_said",
    ),
    _merge_rule(
        "a skip takes nothing back",
        "        if isinstance(action, Skip):\n            self._forget(member)\n",
        "",
        "test_a_skip_takes_back_what_the_others_wanted",
    ),
    _merge_rule(
        "an open plugin that fails stops the rest",
        '            return self._note(member, rounds, error, "fails open")\n',
        '            self._note(member, rounds, error, "fails open")\n            return False\n',
        "test_a_failing_plugin_leaves_the_others_as_they_would_be_without_it",
    ),
    _merge_rule(
        "a closed plugin that fails stops nobody",
        '        self._note(member, rounds, error, "fails closed, stops the rest")\n        return False\n',
        '        self._note(member, rounds, error, "fails closed, stops the rest")\n        return True\n',
        "test_a_closed_plugin_that_fails_stops_what_can_be_refused",
    ),
    _merge_rule(
        "a guard that saw other arguments has seen these",
        "is_fit=False, seen_by=frozenset())\n        if member.guards:\n",
        "is_fit=False)\n        if member.guards:\n",
        "test_no_order_of_plugins_lets_rewritten_arguments_past_a_guard",
    ),
    # --- each cycle has exactly one end, and a session outlives its actor
    Mutant(
        name="an ended cycle is not closed",
        breaks=_ENDS,
        file="core/session/cycle.py",
        old="    step.data.cycle = None\n    step.data.stream = None\n",
        new="    step.data.stream = None\n",
        killed_by=scenario("plain_cycle"),
    ),
    Mutant(
        name="a late outcome is taken",
        breaks=_ENDS,
        file="core/session/legality.py",
        old="    if cell is T and isinstance(signal, signals.EffectOutcome) and not is_awaited(data, signal):\n",
        new="    if cell is Verdict.TAKE and signal is None:\n",
        killed_by=scenario("late_outcomes"),
    ),
    Mutant(
        name="a tool that may not be is called again",
        breaks="what may have happened is not done twice",
        file="core/policy/retries.py",
        old='    return session if effect_class in {"pure", "idempotent"} else 0\n',
        new="    return session\n",
        killed_by="tests/core/test_retries.py::test_only_what_may_be_repeated_is_retried",
    ),
    Mutant(
        name="what a crash left over is not published",
        breaks=_RESTART,
        file="runtime/session.py",
        old="            case Publish(event):\n                self.bus.publish(event)\n",
        new="            case Publish():\n                pass\n",
        killed_by=f"{_RESTARTING}::test_an_event_half_published_is_not_lost",
    ),
    Mutant(
        name="callers hang when a session ends",
        breaks=_RESTART,
        file="runtime/pending_calls.py",
        old="        for to in list(self._waiting):\n            self.refuse(to, self._gone())\n",
        new="",
        killed_by="tests/runtime/test_handle.py::test_calls_on_their_way_when_the_session_ends_are_answered",
        rows=(37,),
    ),
)
