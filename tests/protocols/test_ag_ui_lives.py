"""Random lives of a session, read as an AG-UI client reads them: run by run, with the official types."""

import json
from random import Random

import msgspec
import pytest

from agentrail import events
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.inline_tags import visible_in
from agentrail.core.session.views import snapshot_of
from agentrail.protocols.ag_ui import AG_UI, AgUiRun
from agentrail.protocols.response_state import Bridged, Response, catch_up, resume_response
from tests.core.drawn_lives import lives, steps
from tests.protocols.ag_ui_client import AgUiClient

SIGNALS = 90


def plain(frames):
    """Return frames as a client parses them."""
    return [json.loads(msgspec.json.encode(frame)) for frame in frames]


class Page:
    """A client with one run for each part of a cycle, and all of its frames."""

    def __init__(self, read_text):
        """Begin without a message."""
        self.client = AgUiClient()
        self.state = Bridged(Response(read_text=read_text), AgUiRun(thread_id="t1", run_id="r0"))
        self.frames = []
        self.runs = []
        self.is_open = False

    def hear(self, event):
        """Take an event. A paused cycle continues in another run, with all that the client has."""
        begins = isinstance(event, events.AgentStart)
        if self.state.response.is_paused and not begins:
            followed = resume_response(self.state.response, "r")
            self.state, frames = AG_UI.write(self.state.own, followed)
            self.frames, self.is_open = [*frames], True
        self.state, frames = AG_UI.fold(self.state, event)
        if frames and frames[0]["type"] == "RUN_STARTED":
            assert not (begins and self.is_open), "a run begins while another one is open"
            self.frames, self.is_open = [], True
        self.frames += frames if self.is_open else ()
        if self.is_open and self.state.response.end is not None:
            self.runs.append(plain([*self.frames, *AG_UI.close(self.state)]))
            self.client.read(self.runs[-1])
            self.frames, self.is_open = [], False


class Late:
    """A client that reads a run in the middle: what is kept, the text so far, and what follows."""

    def __init__(self, page_events, state, read_text):
        """Read what is kept, as a server does before it is live."""
        self.state = Bridged(Response(read_text=read_text), AgUiRun(thread_id="t1", run_id="r0"))
        self.frames = []
        for event in page_events:
            if not event.meta.ephemeral:
                self.hear(event)
        followed = catch_up(self.state.response, snapshot_of(state.phase, state.data, 0).text)
        self.state, frames = AG_UI.write(self.state.own, followed)
        self.frames += frames

    def hear(self, event):
        """Take an event. Another run of the same cycle leaves the one before behind."""
        self.state, frames = AG_UI.fold(self.state, event)
        if frames and frames[0]["type"] == "RUN_STARTED":
            self.frames = []
        self.frames += frames

    @property
    def client(self):
        """A client that has read it to its end."""
        client = AgUiClient()
        client.read(plain([*self.frames, *AG_UI.close(self.state)]))
        return client


def words_and_calls(client):
    """The words of a run, and its calls with their results: thinking may come later to who came late."""
    calls = {call["id"]: call["function"] for one in client.messages for call in one.get("toolCalls", ())}
    return client.told, calls, {one: client.results(one) for one in calls}


@pytest.mark.protocol(23)
@pytest.mark.parametrize("seed", lives(60))
def test_each_run_of_a_life_is_in_order_and_whole_for_who_comes_late(seed):
    """What is opened is closed, nothing is opened twice, and there is one terminal frame: `AgUiClient` says what is held.

    Read from any step on: the same words, the same calls, the same results.
    """
    draw = Random(seed)  # noqa: S311 - the same cuts each time
    page, heard, late, start = None, [], [], 0
    for _, state, effects in steps(seed, SIGNALS, is_new=True):
        config = state.data.config

        def read_text(messages, config=config):
            return visible_in(messages, config)

        page = page or Page(read_text)
        for event in [effect.event for effect in effects if isinstance(effect, Publish)]:
            if isinstance(event, events.AgentStart):
                heard, late, start = [], [], len(page.runs)
            heard.append(event)
            page.hear(event)
            for one in late:
                one.hear(event)
            if not page.is_open and late:
                if len(page.runs) == start + 1:  # one run is one cycle: later ones show only what is new
                    whole = AgUiClient()
                    whole.read(page.runs[-1])
                    assert [words_and_calls(one.client) for one in late] == [words_and_calls(whole)] * len(
                        late
                    )
                late = []
        if page.is_open and draw.random() < 0.5:
            late.append(Late(heard, state, read_text))
    assert page is not None


@pytest.mark.check
def test_the_lives_show_every_kind_of_frame():
    """The property would prove little of a kind that no life has."""
    seen = set()
    for seed in range(40):
        page = None
        for _, _, effects in steps(seed, SIGNALS, is_new=True):
            page = page or Page(lambda messages: messages[-1].text)
            for effect in effects:
                if isinstance(effect, Publish):
                    page.hear(effect.event)
        seen |= {frame["type"] for run in page.runs for frame in run}
    assert seen >= {
        *(
            "RUN_STARTED",
            "RUN_FINISHED",
            "RUN_ERROR",
            "STEP_STARTED",
            "STEP_FINISHED",
            "CUSTOM",
            "STATE_DELTA",
        ),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT"),
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
        *("REASONING_START", "REASONING_MESSAGE_CONTENT", "REASONING_END"),
        *("SUBAGENT_STARTED", "SUBAGENT_FINISHED"),
    }
