"""Totals of metrics: what each committed event adds, once, under labels that stay few whatever sessions do."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail import events as e, messages as m
from agentrail.abc.event_reader import SessionOrigin
from agentrail.core.journal.spans import SessionSpans
from agentrail.errors import ErrorInfo, OptionError
from agentrail.telemetry import metric_totals as module
from agentrail.telemetry.metric_totals import (
    DURATION,
    FIRST_CHUNK,
    LABELS,
    METRICS,
    OTHER,
    Metric,
    MetricFold,
    MetricTotals,
)

CALL = m.CallId("c-1")
REF = m.PromptRef("p-1")
NAMES = frozenset({"google:gemini-x", "read", "guard"})
MODEL = ("chat", "gcp.gemini", "gemini-x")

START = e.AgentStart(ref=REF)
END = e.AgentEnd(messages=(), usage=m.TokenUsage(), stop_reason="end", turns=1)
REQUEST = e.RequestStart(model="google:gemini-x", messages=1)
FAULT = ErrorInfo(code="overloaded", message="a canary")


def answer(**usage):
    said = m.AssistantMessage(content=(), model="another")
    return e.ResponseComplete(message=said, usage=m.TokenUsage(**usage), stop_reason="end")


def result(name="read", *, is_error=False):
    found = m.ToolResult(call_id=CALL, name=name, text="", is_error=is_error)
    return e.ToolExecutionEnd(name=name, call_id=CALL, result=found)


class Story:
    """Feeds events of one session to a fold, a second apart."""

    def __init__(self, fold=None, session="s", *, names=NAMES, seq=0, at_ms=0):
        self.fold = fold or MetricFold(lambda _scope, _session: names)
        self.session = m.SessionId(session)
        self.seq, self.at_ms = seq, at_ms
        self.origin = SessionOrigin("acme", session, {"agent_id": "desk"})
        self.told = []

    def say(self, *events, **meta):
        """Feed events, and give what they added, by series."""
        for event in events:
            self.seq, self.at_ms = self.seq + 1, self.at_ms + 1_000
            place = e.Envelope(self.session, self.seq, self.at_ms, (self.session,), **meta)
            self.told.append(msgspec.structs.replace(event, meta=place))
        return self.again(self.told[len(self.told) - len(events) :])

    def again(self, events=None):
        before = state_of(self.fold)
        for event in self.told if events is None else events:
            self.fold.feed(self.origin, event)
        return {
            series: value - before.get(series, (0, 0))[0]
            for series, (value, count) in state_of(self.fold).items()
            if (value, count) != before.get(series, (0, 0))
        }

    def traces(self):
        (total,) = [one for series, one in self.fold.totals.by_series.items() if series[0] == CYCLE]
        return [trace() for _, trace in total.examples.values()]


CYCLE = "agentrail_cycle_seconds"


def state_of(fold):
    return {series: (one.value, sum(one.counts)) for series, one in fold.totals.by_series.items()}


def added(*expected):
    """What a table says, by series."""
    return {
        (name if name.startswith("gen_ai") else f"agentrail_{name}", *values): value
        for name, values, value in expected
    }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param((START,), [], id="a cycle is counted at its end"),
        pytest.param(
            (START, END),
            [("cycles_total", ("ok", "desk"), 1), ("cycle_seconds", (), 1)],
            id="a cycle",
        ),
        pytest.param((END,), [("cycles_total", ("ok", "desk"), 1)], id="a cycle that began before", marks=()),
        pytest.param((e.AgentAbort(reason=None),), [], id="an abort in idle"),
        pytest.param(
            (START, e.AgentError(error=FAULT)),
            [("cycles_total", ("failed", "desk"), 1), ("cycle_seconds", (), 1)],
            id="a failed cycle",
        ),
        pytest.param(
            (START, REQUEST, e.AgentAbort(reason=None)),
            [
                ("model_requests_total", ("google", "gemini-x", "aborted"), 1),
                (DURATION, (*MODEL, ""), 1),
                ("cycles_total", ("aborted", "desk"), 1),
                ("cycle_seconds", (), 2),
            ],
            id="an abort in a request",
        ),
        pytest.param(
            (REQUEST, e.MessageStart(), answer(input=9, output=3, cache_read=4, cache_write=1, cost_usd=0.5)),
            [
                (FIRST_CHUNK, MODEL, 1),
                ("tokens_total", ("google", "gemini-x", "input"), 9),
                ("tokens_total", ("google", "gemini-x", "output"), 3),
                ("tokens_total", ("google", "gemini-x", "cache_read"), 4),
                ("tokens_total", ("google", "gemini-x", "cache_write"), 1),
                ("gen_ai_client_token_usage", (*MODEL, "input"), 9),
                ("gen_ai_client_token_usage", (*MODEL, "output"), 3),
                ("cost_dollars_total", ("desk", "gemini-x"), 0.5),
                ("model_requests_total", ("google", "gemini-x", "ok"), 1),
                (DURATION, (*MODEL, ""), 2),
            ],
            id="an answered request",
        ),
        pytest.param(
            (REQUEST, e.StreamError(error=FAULT), REQUEST),
            [
                ("model_requests_total", ("google", "gemini-x", "failed"), 1),
                (DURATION, (*MODEL, "overloaded"), 1),
            ],
            id="a failed request",
        ),
        pytest.param(
            (REQUEST, e.Retry(attempt=2, delay_ms=1, error=FAULT)),
            [
                ("model_requests_total", ("google", "gemini-x", "failed"), 1),
                (DURATION, (*MODEL, "overloaded"), 1),
            ],
            id="a request that is sent again",
        ),
        pytest.param(
            (REQUEST, e.ModelSwitched(from_model="a", to_model="b", by="fallback"), REQUEST),
            [("model_requests_total", ("google", "gemini-x", "failed"), 1), (DURATION, (*MODEL, OTHER), 1)],
            id="the last request before another model",
        ),
        pytest.param(
            (REQUEST, REQUEST),
            [("model_requests_total", ("google", "gemini-x", "aborted"), 1), (DURATION, (*MODEL, ""), 1)],
            id="a request whose end was lost",
        ),
        pytest.param((answer(input=9),), [], id="an answer to a request from before"),
        pytest.param(
            (e.RequestStart(model="google:gemini-y", messages=1), e.StreamError(error=FAULT)),
            [
                ("model_requests_total", (OTHER, OTHER, "failed"), 1),
                (DURATION, ("chat", OTHER, OTHER, "overloaded"), 1),
            ],
            id="a model of the user's",
        ),
        pytest.param(
            (START, result(), result(is_error=True), result("rm -rf /")),
            [
                ("tool_calls_total", ("read", "ok"), 1),
                ("tool_calls_total", ("read", "failed"), 1),
                ("tool_calls_total", (OTHER, "ok"), 1),
            ],
            id="tool calls",
        ),
        pytest.param(
            (START, e.ToolBlocked(name="read", call_id=CALL, reason="no", by="guard"), result(is_error=True)),
            [("tool_calls_total", ("read", "blocked"), 1)],
            id="a blocked call",
        ),
        pytest.param(
            (
                e.ToolExecutionMetrics(
                    name="read", call_id=CALL, started_at_ms=0, ended_at_ms=250, duration_ms=250
                ),
                e.AbortSettled(receipt=e.AbortReceipt(milliseconds=40)),
                e.AbortSettled(receipt=e.AbortReceipt(settled=False)),
                e.SessionRestarted(reason="a canary", incarnation=2),
            ),
            [("tool_seconds", (), 0.25), ("abort_seconds", (), 0.04), ("restarts_total", (), 1)],
            id="durations and restarts",
        ),
        pytest.param(
            (
                START,
                e.PluginFailed(plugin="guard", hook="BeforeTool", error=FAULT, policy="open"),
                e.PluginFailed(plugin="a canary", hook="BeforeTool", error=FAULT, policy="open"),
            ),
            [
                ("plugin_failures_total", ("guard", "BeforeTool"), 1),
                ("plugin_failures_total", (OTHER, "BeforeTool"), 1),
            ],
            id="failures of plugins",
        ),
    ],
)
def test_an_event_adds_what_it_says_and_read_again_it_adds_nothing(events, expected):
    """A reader delivers some events twice after a crash. The fold knows them by their number."""
    story = Story()
    story.say(START, e.AgentAbort(reason=None, ref=REF))  # so that the names are known
    assert story.say(*events) == added(*expected)
    assert story.again() == {}
    assert story.say(START, END) != {}


def test_a_session_that_is_not_awake_any_more_keeps_its_names():
    """Those that it had when it was last awake. A session that never was has none, and its tools are `other`."""
    there = [NAMES]
    story = Story(MetricFold(lambda _scope, _session: there[0]))
    story.say(START, result())
    there[0] = None
    assert story.say(result()) == added(("tool_calls_total", ("read", "ok"), 1))
    assert Story(story.fold, "t").say(result()) == added(("tool_calls_total", (OTHER, "ok"), 1))


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("trace", [None, m.TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")])
def test_durations_carry_the_trace_of_their_cycle(trace, queued):
    """The same that its spans have: the caller's, otherwise one that follows from the session and the prompt."""
    given = {"ref": REF, "content": (), "trace": trace}
    prompt = e.PromptQueued(**given, position=0) if queued else e.PromptReceived(**given)
    story = Story()
    story.say(prompt, START, END)
    (found,) = story.traces()
    spans = SessionSpans(scope="acme", session=story.session, user_data={})
    made = [span for event in story.told for span in spans.feed(event)]
    assert {span.trace_id for span in made} == {found}
    assert (found == "a" * 32) == (trace is not None)
    story.say(START, END)
    assert "a" * 32 not in story.traces()  # the next cycle of the same prompt has no caller any more


@pytest.mark.parametrize(
    "end",
    [
        e.PromptDropped(ref=REF, content=()),
        e.PromptRejected(ref=REF, reason="no"),
        e.PromptTaken(ref=REF, approval_id=m.ApprovalId("a"), by="guard"),
    ],
)
def test_a_prompt_that_starts_no_cycle_leaves_nothing_behind(end):
    """Otherwise the trace of a dropped prompt would be the exemplar of the next cycle."""
    trace = m.TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    story = Story()
    story.say(e.PromptQueued(ref=REF, content=(), trace=trace, position=0), end, START, END)
    assert "a" * 32 not in story.traces()


def test_a_session_that_takes_the_id_of_an_ended_one_is_counted():
    """Its numbers begin again at 1, at a later time than the last event."""
    story = Story()
    story.say(START, END, e.SessionEnd(reason="stopped"))
    assert len(Story(story.fold, at_ms=story.at_ms).say(START, END)) == 2


def test_ephemeral_events_and_those_of_a_child_wrapped_by_its_parent_add_nothing():
    """The reader also gets a child's event from the child. Events without an envelope add nothing either."""
    story = Story()
    assert story.say(END, ephemeral=True) == {}
    assert story.again([END]) == {}
    assert story.say(e.SubagentEvent(call_id=CALL, child_id=m.SessionId("t"), depth=1, event=END)) == {}


def test_a_clock_that_goes_back_makes_no_negative_duration_and_counts_once():
    """A negative value would make a histogram's sum fall, which Prometheus reads as a restart."""
    story = Story(at_ms=60_000)
    story.say(START)
    story.at_ms = 0
    assert story.say(END) == added(("cycles_total", ("ok", "desk"), 1), ("cycle_seconds", (), 0))
    assert story.again() == {}


def test_the_oldest_of_many_sessions_is_forgotten(monkeypatch):
    """Its cycle is still counted, without a duration: memory is bounded, and totals are not lost."""
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)
    first = Story()
    first.say(START)
    for name in ("t", "u"):
        Story(first.fold, name).say(START)
    assert first.say(END) == added(("cycles_total", ("ok", "desk"), 1))  # without a duration


# --- labels


@pytest.mark.parametrize("label", ["session", "user", "call_id", "text"])
def test_a_metric_with_an_unbounded_label_is_refused(label):
    """This is refused where the metric is defined, not at the first value."""
    with pytest.raises(OptionError, match=f"label '{label}' is not bounded: use one of LABELS"):
        Metric("counter", "A metric.", ("profile", label))


def admitted(totals, name, *values):
    """The labels under which a metric counts these values: what has grown."""
    before = {series: one.value for series, one in totals.by_series.items()}
    totals.add((name, *values))
    (grown,) = [series for series, one in totals.by_series.items() if one.value != before.get(series, 0)]
    return grown[1:]


@pytest.mark.parametrize("text", ["", "two words", "a\nb", 'a"b', "é", "x" * 10_000])
def test_free_text_is_other(text):
    """An unknown outcome counts as failed."""
    assert admitted(MetricTotals(), "agentrail_tool_calls_total", text, text) == (OTHER, "failed")


@pytest.mark.parametrize(("name", "label", "most"), [("model", 1, 100), ("tool", 0, 300)])
def test_the_names_beyond_their_number_are_other(name, label, most):
    """Names that were admitted before keep their own series."""
    metric = {"model": "agentrail_model_requests_total", "tool": "agentrail_tool_calls_total"}[name]
    totals = MetricTotals()
    values = [["p", f"n{number}", "ok"][1 - label :] for number in range(most + 2)]
    shown = [admitted(totals, metric, *one)[label] for one in values]
    assert shown == [f"n{number}" for number in range(most)] + [OTHER, OTHER]
    assert admitted(totals, metric, *values[0]) == tuple(values[0])


def series_of(name, metric):
    """Number of series for one combination of labels: a histogram has one per bucket, and three more."""
    return len(metric.buckets) + 3 if metric.kind == "histogram" else 1


@pytest.mark.operation(8)
def test_there_is_no_room_for_2000_series():
    """Each metric at its worst: its room for names, and each combination of fixed values without them."""
    total = 0
    for name, metric in METRICS.items():
        fixed = 1
        for label in metric.labels:
            known = LABELS[label]
            fixed *= len(known) if isinstance(known, tuple) else 1
        total += series_of(name, metric) * (metric.room + fixed)
    assert 1_500 < total < 2_000


names = st.sampled_from(["a", "b", OTHER, "", "two words"]) | st.text() | st.integers().map(str)


@pytest.mark.operation(8)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(METRICS)), names, names, names, names), max_size=60),
    st.integers(0, 400),
)
def test_the_series_are_bounded_whatever_the_values_are(drawn, more):
    """Below 2,000 series with arbitrary labels, each of which is a known value, a plain name or `other`."""
    totals = MetricTotals()
    for name, *values in drawn:
        totals.add((name, *values[: len(METRICS[name].labels)]))
    for number in range(more):
        for name, one in METRICS.items():
            totals.add((name, *[f"{label}-{number}" for label in one.labels]))
    shown = list(totals.by_series)
    assert sum(series_of(name, METRICS[name]) for name, *_ in shown) < 2_000
    for name, *values in shown:
        for label, value in zip(METRICS[name].labels, values, strict=True):
            known = LABELS[label]
            assert value in known if isinstance(known, tuple) else value == OTHER or value.isascii()
