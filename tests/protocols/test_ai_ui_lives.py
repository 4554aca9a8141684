"""Random lives of a session, read as its client reads them: whole, with its answers in between, and cut anywhere and read again."""

from random import Random

import pytest

from agentrail import events
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.inline_tags import visible_in
from agentrail.core.session.views import snapshot_of
from agentrail.messages import Thinking
from agentrail.protocols.ai_ui import AI_UI
from tests.core.drawn_lives import lives, steps
from tests.protocols.ui_client import UiClient
from tests.protocols.ui_response import caught_up, last_parts, resumed, started

SIGNALS = 90
MANY = (0, 2, 3, 4, 6, 7, 8, 9)
"""Lives in which a cycle comes to an end, of those that `make test` draws."""


def told_by(seed):
    """The events of a life; behind each step the text that streams by then."""
    for _, state, effects in steps(seed, SIGNALS, is_new=True):
        yield [effect.event for effect in effects if isinstance(effect, Publish)], state


def read_of(state):
    """How people read a response of this session."""
    return lambda messages: visible_in(messages, state.data.config)


class Page:
    """What a server and a page do together: a response for each part of a cycle that runs, taken up behind each pause."""

    def __init__(self, state):
        self.response = started(read_text=read_of(state))
        self.client = UiClient()
        self.parts = []
        self.is_open = False
        self.events = []
        self.thinks = self.lost_thought = False

    def hear(self, event):
        """Take an event. A page answers, or comes back, as soon as something happens behind a pause."""
        begins = isinstance(event, events.AgentStart)
        self.events = [event] if begins else [*self.events, event]
        self.note_thinking(event)
        parts = ()
        if self.response.response.is_paused and not begins:
            self.response, parts = resumed(self.response, self.response.response.response_id)
            self.is_open = True
        self.response, more = AI_UI.fold(self.response, event)
        if more and more[0]["type"] == "start":  # also of its own, behind words that decided something
            assert not (begins and self.is_open), "a message begins while another one is open"
            self.parts, self.is_open, parts = [], True, ()
        self.parts.extend([*parts, *more] if self.is_open else ())
        if self.is_open and self.response.response.end is not None:
            self.client.read([*self.parts, *last_parts(self.response)])
            self.parts, self.is_open = [], False

    def note_thinking(self, event):
        """Note whether something was thought that no message has: of a response that broke off, or was completed without it."""
        if isinstance(event, events.AgentStart):
            self.thinks = self.lost_thought = False
        elif (
            isinstance(event, events.RequestStart | events.AgentEnd | events.AgentAbort | events.AgentError)
            and self.thinks
        ):
            self.lost_thought = True
        elif isinstance(event, events.ResponseComplete) and self.thinks:
            self.lost_thought |= not any(isinstance(block, Thinking) for block in event.message.content)
        if isinstance(event, events.ThinkingDelta | events.ResponseComplete):
            self.thinks = isinstance(event, events.ThinkingDelta)


class Reload:
    """A page that is loaded in the middle of a response: it is given what is kept, what streams by now, and what follows."""

    def __init__(self, page, state):
        """Read what is kept, as a server does before it is live."""
        self.response = started(read_text=read_of(state))
        self.client = UiClient()
        self.parts = []
        for event in page.events:
            if not event.meta.ephemeral:
                self.hear(event)
        self.response, parts = caught_up(self.response, snapshot_of(state.phase, state.data, 0).text)
        self.parts.extend(parts)

    def hear(self, event):
        """Take an event; another message of the same cycle leaves the one before behind."""
        self.response, parts = AI_UI.fold(self.response, event)
        if parts and parts[0]["type"] == "start":
            self.parts = []
        self.parts.extend(parts)

    @property
    def told(self):
        """What stands in its message in the end."""
        self.client.read([*self.parts, *last_parts(self.response)], is_replay=True)
        return self.client.told()


def words_and_calls(told):
    """What was said, what was thought, and the calls: thinking whose beginning was missed comes behind what was said."""
    kinds = ("text", "reasoning", "call")
    found = {kind: [one[1:] for one in told if one[0] == kind] for kind in kinds}
    return {kind: "".join(one[0] for one in said) if kind != "call" else said for kind, said in found.items()}


@pytest.mark.protocol(66)
@pytest.mark.parametrize("seed", lives(60))
def test_each_response_of_a_life_is_in_order_and_is_whole_when_it_is_read_again(seed):
    """What is opened is closed, ids are opened once, there is one last part: `UiClient` says what is held (8.17).

    Cut behind any step and read from its beginning: the same words, the same calls, in one message of the same id (11.14).
    """
    draw, page, reloads = Random(seed), None, []  # noqa: S311 - the same cuts each time
    for published, state in told_by(seed):
        page = page or Page(state)
        for event in published:
            was_open = page.is_open
            page.hear(event)
            for reload in reloads:
                reload.hear(event)
            if was_open and not page.is_open:
                whole = words_and_calls(page.client.told())
                for reload in reloads:
                    found = words_and_calls(reload.told)
                    if page.lost_thought:
                        assert found.pop("reasoning") in whole["reasoning"]
                    assert found == {kind: whole[kind] for kind in found}
                    assert [*reload.client.messages] == [[*page.client.messages][-1]]
                reloads = []
        if page.is_open and draw.random() < 0.5:
            reloads.append(Reload(page, state))
    assert page is not None
    assert page.client.ends or seed not in MANY
