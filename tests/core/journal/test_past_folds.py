"""What is told of the past, over all that can be published and over every golden state: nothing is left out, and nothing stands alone."""

from pathlib import Path
from typing import get_args

import msgspec

from agentrail.core.journal.call_history import call_in, story_of_call
from agentrail.core.journal.record import REWOUND, Record, RewoundBody
from agentrail.core.journal.rewound_events import UndoneEvents
from agentrail.core.journal.step_explanation import ExplainedSignal, ExplainedStep, lines_of_step
from agentrail.core.journal.usage import spendings_of_usage
from agentrail.core.policy.request_context import fixed_tokens_of, outgoing, tokens_of
from agentrail.core.session.approval_rules import allow
from agentrail.core.session.request_preview import _head_of, next_request_of
from agentrail.core.session.state import PromptMode
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.views import model_of, system_prompt_of
from agentrail.core.stack.explained_run import _plain
from agentrail.core.stack.explanation import RunListener
from agentrail.core.values.history import History
from agentrail.core.values.toolbox import Toolbox
from agentrail.core.wire.codec import decode_event
from agentrail.events import ApprovalRequired, ResponseComplete, UnknownEvent
from agentrail.frozen import canonical_json
from agentrail.messages import AssistantMessage, FileRef, Image, SessionId, Text, TokenUsage, UserMessage
from tests.console.fold_cases import fold_cases
from tests.core.golden_states import NAMES, state_of
from tests.core.journal.timelines import timeline_of

GOLDEN = Path(__file__).parent.parent / "golden" / "events"


def lives():
    """The events of all scenarios, and every golden event in a row, twice."""
    for line in fold_cases():
        case = msgspec.json.decode(line)
        yield [event for step in case["steps"] for event in step["events"]]
    row = [msgspec.json.decode(file.read_bytes()) for file in sorted(GOLDEN.glob("*.json"))]
    yield [{**event, "seq": seq, "at_ms": 10 * seq} for seq, event in enumerate(row + row, 1)]


def known(events):
    made = [decode_event(msgspec.json.encode(event)) for event in events]
    return [event for event in made if not isinstance(event, UnknownEvent)]


def test_of_all_that_is_published_each_span_has_its_place_and_each_call_its_story():
    """A span stands below one that is there, and ends behind its beginning; what a call came to is told."""
    kinds, outcomes = set(), set()
    for events in map(known, lives()):
        spans = timeline_of(events)
        keys = {span.key for span in spans}
        assert len(keys) == len(spans)
        for span in spans:
            assert span.parent is None or span.parent in keys
            assert span.to_ms is None or span.to_ms >= span.from_ms
            kinds.add(span.kind)
        calls = {event.call_id for event in events if getattr(event, "call_id", None) is not None}
        calls |= {event.approval.call_id for event in events if isinstance(event, ApprovalRequired)}
        stories = [story_of_call(call_id, events) for call_id in sorted(calls)]
        outcomes |= {story.outcome for story in stories if story is not None}
    assert kinds == {"cycle", "request", "call", "gate", "child", "compaction"}
    assert {"done", "error", "blocked", "killed", "skipped", "unknown"} <= outcomes


def test_of_each_state_the_parts_of_the_next_request_add_up():
    """What is sent is named whole and once: together as long as the whole is estimated, but for what rounding takes part by part."""
    for name in NAMES:
        data = state_of(name).data
        told = next_request_of(data, lambda text: text)
        handed = data.cycle.handed if data.cycle is not None else None
        _, messages = outgoing(
            data.outgoing, data.history.messages if handed is None else handed, data.refused
        )
        whole = fixed_tokens_of(system_prompt_of(data), data.tools) + tokens_of(messages)
        gathered = [part for part in told.parts if part.kind == "provider"]
        first_added = len(told.parts) - len(gathered) - len(data.steers)
        added = told.parts[first_added:]
        assert told.tokens == sum(part.tokens for part in told.parts)
        assert abs(told.tokens - sum(part.tokens for part in added) - whole) <= len(told.parts), name
        tools = [part.name for part in told.parts if part.kind == "tools"]
        assert tools == [spec.name for spec in data.tools]
        drawn = [part for part in told.parts[:first_added] if part.role is not None]
        assert len(drawn) == len(messages)
        asked = [call.call_id for one in messages if isinstance(one, AssistantMessage) for call in one.calls]
        assert [at for part in drawn if part.role == "assistant" for at in part.call_ids] == asked
        assert (told.counted_tokens, told.model) == (data.context_tokens, model_of(data).model)


def test_a_call_is_found_in_the_response_that_asked_for_it():
    """By its id, and None in another response."""
    row = [event for events in map(known, lives()) for event in events if isinstance(event, ResponseComplete)]
    asking = next(event for event in row if event.message.calls)
    assert call_in(asking, asking.message.calls[-1].call_id) is asking.message.calls[-1]
    assert call_in(asking, "another") is None


def test_the_digest_is_another_one_when_a_word_is():
    """Of a message, of the system prompt and of a tool; and the same when nothing is."""
    data = state_of("everything").data
    spec = msgspec.structs.replace(next(iter(data.tools)), description="Another one.")
    history = History().with_user(UserMessage(content=(Text(text="Another one."),)))
    others: list[dict[str, object]] = [
        {},
        {"tools": Toolbox()},
        {"tools": Toolbox([spec])},
        {"acting": msgspec.structs.replace(data.acting, prompt="Another one.")},
        {"cycle": None, "history": history},
    ]
    digests = [next_request_of(msgspec.structs.replace(data, **one), str).digest for one in others]
    assert len(set(digests)) == len(digests)
    assert next_request_of(state_of("everything").data, str).digest == digests[0]


def test_the_sections_of_a_system_prompt_are_parts_as_far_as_its_mode_wants_them():
    """Joined as they stand they are the prompt: a section that repeats another's words is one too, and so are the names of tools."""
    sections = {"skills": "Use them.", "memory": "Use them.", "rules": "Be short."}
    for mode in get_args(PromptMode):
        data = state_of("everything").data
        config = msgspec.structs.replace(data.config, prompt_mode=mode)
        data = msgspec.structs.replace(data, config=config, sections=sections)
        parts = [part for part in next_request_of(data, str).parts if part.kind == "system"]
        assert "\n\n".join(part.text_head for part in parts) == system_prompt_of(data)


def test_what_seldom_has_words_is_told_all_the_same():
    """A step that came out otherwise, a message of files and pictures, half of a character, a class of one's own; nothing of what used nothing."""
    signal = ExplainedSignal(kind="prompt", at_ms=0)
    step = ExplainedStep(
        at=1, signal=signal, phase=("idle", "idle"), runs=(), effects=(), events=None, drift="another effect"
    )
    assert list(lines_of_step(step))[-1] == "  differs: another effect"
    said = UserMessage(content=(FileRef(path="a.txt"), Image(media_type="image/png", data="aGk=")))
    assert _head_of(said) == "a.txt\n[image]"
    assert (_plain("\ud800"), _plain(object())) == ("\ud800", "object(…)")
    assert spendings_of_usage(TokenUsage(), "scripted:model", 0) == ()
    RunListener(None, ()).over(None)  # a run that no caller waits for is heard all the same


def test_a_rewind_without_events_behind_it_takes_nothing_back():
    """One that is damaged, whose events stand; and one back to the first of two records that published nothing."""
    back = canonical_json(msgspec.to_builtins(RewoundBody(number=1)))
    for rows in (((2, REWOUND, b"{", 3),), ((1, "opened", b"{}", 0), (2, REWOUND, back, 0))):
        undoing = UndoneEvents()
        undoing.follow(
            [
                Record(
                    scope="",
                    session=SessionId("s"),
                    seq=seq,
                    epoch=1,
                    at_ms=0,
                    kind=kind,
                    body=body,
                    events=events,
                )
                for seq, kind, body, events in rows
            ]
        )
        assert undoing.ranges == ()


def test_what_comes_without_what_it_refers_to_makes_no_span():
    """A first word without a request, an approval that was never asked for; what a running call says stands with it."""
    kinds = ("prompt_received", "agent_start", "message_start", "response_complete", "approval_resolved")
    of_call = ("tool_execution_start", "large_result_offloaded", "tool_execution_metrics")
    row = [msgspec.json.decode((GOLDEN / f"{kind}.json").read_bytes()) for kind in (*kinds, *of_call)]
    for event in row[len(kinds) :]:
        event["call_id"] = "c1"
    row[6]["path"] = "results/c1.txt"
    spans = timeline_of(known([{**event, "seq": seq, "at_ms": seq} for seq, event in enumerate(row, 1)]))
    assert [span.kind for span in spans] == ["cycle", "call"]
    assert spans[1].attributes["offloaded"] == "results/c1.txt"
    assert "duration_ms" in spans[1].attributes


def test_a_rule_that_stands_is_made_once():
    """It keeps when it was made."""
    step = StepContext(msgspec.structs.replace(state_of("running").data, rules=frozenset()), 1)
    first = allow(step, "shell", {"command": "git status"})
    step.at_ms = 2
    assert allow(step, "shell", {"command": "git status", "timeout_seconds": 9}) == first
    assert step.data.rules == {first}
