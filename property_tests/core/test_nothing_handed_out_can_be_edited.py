"""Nobody edits the past: whoever has what a session was given, or handed out, may write to it, and the state stays.

The runs of test_machine.py, with somebody beside them who writes to everything in reach after each step: the signal that
came, the effects, the events in them, what plugins were asked with, what status, snapshot and messages say.
"""

import copy

import pytest
from hypothesis import given, settings, strategies as st

from agentrail.core.protocol.effects import Publish, ReplyToCaller
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.signals import MessagesQuery, SignalId, SnapshotQuery, StatusQuery
from agentrail.core.session import machine
from agentrail.core.stack.loaded_stack import Member, load_stack
from agentrail.core.stack.plugin import Context
from agentrail.testing import strategies
from property_tests.vandal import edit_everything, portrait
from tests.core.worlds import TOOLS, config

USER_DATA = {"tenant": {"id": "mine", "roles": ["reader"]}, "tags": {"a", "b"}, "raw": bytearray(b"x")}
ROUNDS = settings(max_examples=max(settings().max_examples // 2, 10))


def _vandal_in_the_stack(member: Member, event: HookEvent, state: object, ctx: Context) -> object:
    """Ask a plugin, and edit what it was asked with: whoever asks is the shell, and sees all that plugins see."""
    answer = member.plugin.handle(event, state, ctx)
    edit_everything(event, ctx.user_data, ctx.messages, ctx.todos, ctx.tools, ctx.repairs, state)
    return answer


QUESTIONS = (StatusQuery, MessagesQuery, SnapshotQuery)


@pytest.mark.at(39)
@ROUNDS
@given(data=st.data(), plugins=strategies.stacks(max_size=2))
def test_a_life_in_which_everything_is_edited_is_the_same_life(data, plugins):
    """After each step all that can be reached is written to; the state is what it was, and the run goes on the same."""
    user_data = copy.deepcopy(USER_DATA)
    edited = load_stack(plugins, ask=_vandal_in_the_stack)
    state = machine.new_session(config(user_data=user_data), TOOLS, *edited)
    untouched = machine.new_session(config(user_data=copy.deepcopy(USER_DATA)), TOOLS, *load_stack(plugins))
    edit_everything(user_data)
    for number, signal in enumerate(data.draw(strategies.scripts(untouched))):
        before = portrait(state)
        after, effects = machine.step(state, signal)
        assert portrait(state) == before
        untouched, _ = machine.step(untouched, copy.copy(signal))
        _edit_and_look(after, signal, *effects)
        for question in QUESTIONS:
            _, answers = machine.step(after, question(at_ms=signal.at_ms, signal_id=SignalId(f"q{number}")))
            _edit_and_look(after, *answers)
        state = after
        assert portrait(state.data.history) == portrait(untouched.data.history)
        assert portrait(state.data.config) == portrait(untouched.data.config)


def _edit_and_look(state, *handed_out):
    before = portrait(state)
    answers = [effect.value for effect in handed_out if isinstance(effect, ReplyToCaller)]
    events = [effect.event for effect in handed_out if isinstance(effect, Publish)]
    assert edit_everything(*handed_out, *answers, *events) >= len(handed_out)
    assert portrait(state) == before
