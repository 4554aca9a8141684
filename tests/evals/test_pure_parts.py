"""The parts of evals that compute: cases, traces, scorers, statistics and reports. No session and no model."""

import cProfile
import json
import sys
from functools import partial
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from agentrail.core.journal.call_history import CallGate, CallStory
from agentrail.errors import ErrorInfo, OptionError
from agentrail.evals.dataset import MAX_CASE_ID, Case, Dataset, read_cases
from agentrail.evals.report import (
    CaseRun,
    EvalReport,
    compare_reports,
    decode_report,
    encode_junit,
    encode_report,
)
from agentrail.evals.scorers import (
    Judge,
    Score,
    approved_first,
    below,
    contains,
    exact,
    json_equals,
    schema,
    score_of,
    scorer_from,
    scorer_name,
    tools_called,
)
from agentrail.evals.statistics import interval_of, kappa_of, pass_all, pass_at
from agentrail.evals.trace import Trace, trace_of, traces_of
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Envelope,
    ResponseComplete,
    SessionEnd,
    SessionParked,
    ToolExecutionEnd,
    ToolExecutionMetrics,
)
from agentrail.messages import AssistantMessage, PromptRef, Text, TokenUsage, ToolCall, ToolResult

CASE = Case("What is 2 + 3?", "5")


# --- cases


def test_a_case_without_an_id_has_one_of_its_input():
    """It stays the same when other cases come or its expectation changes, so that baselines can be compared."""
    assert Case("Hi.").id == Case("Hi.", "Hello.").id != Case("Hi!").id
    assert (Case("Hi.", id="greeting").id, Case(("Hi.", "Bye.")).prompts) == ("greeting", ("Hi.", "Bye."))
    assert Case("Hi.").prompts == ("Hi.",)


FIVE: Any = 5


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: Case(FIVE), "input is 5: expected a text, or a sequence, each a text"),
        (lambda: Case("a", metadata=FIVE), "metadata is 5: expected a mapping"),
        (lambda: Case("a", id=FIVE), "id is 5: expected a text"),
        (lambda: Dataset("d", FIVE), "cases is 5: expected a sequence, each Case(…)"),
        (lambda: Dataset("d", [FIVE]), "cases is (5,): expected a sequence, each Case(…)"),
        (lambda: Dataset(FIVE, [Case("a")]), "name is 5: expected a text"),
    ],
)
def test_a_value_of_a_wrong_type_is_named(make, fault):
    """By the constructor, and not later by whatever reads it."""
    with pytest.raises(OptionError) as caught:
        make()
    assert caught.value.faults == (fault,)


def test_cases_are_read_from_lines_and_from_toml():
    """Both have the same keys."""
    lines = (
        '{"input": "Hi.", "expected": {"a": 1}, "metadata": {"x": 2}, "id": "one"}\n\n{"input": ["A", "B"]}\n'
    )
    one, two = read_cases(lines, "cases.jsonl")
    assert (one.expected, one.metadata, one.id, two.prompts) == ({"a": 1}, {"x": 2}, "one", ("A", "B"))
    for letter in "\u2028\u0085":  # ends a line for Python, and not in JSON
        assert read_cases(f'{{"input": "a{letter}b"}}', "cases.jsonl")[0].input == f"a{letter}b"
    toml = '[[cases]]\ninput = "Hi."\nexpected = {a = 1}\nmetadata = {x = 2}\nid = "one"\n[[cases]]\ninput = ["A", "B"]\n'
    assert read_cases(toml, "eval.toml") == (one, two)


BROKEN = [
    ('{"input": "a"}\n{"inptu": "b"}', "c.jsonl", "c.jsonl:2: Object contains unknown field `inptu`"),
    ('{"input": "a"}\nnope', "c.jsonl", "c.jsonl:2: Expecting value: line 1 column 1 (char 0)"),
    ('{"input": 3}', "c.jsonl", "c.jsonl:1: Expected `str | array`, got `int` - at `$.input`"),
    ('{"input": ""}', "c.jsonl", "c.jsonl:1: input is empty: give a prompt"),
    ('{"input": []}', "c.jsonl", "c.jsonl:1: input is empty: give a prompt"),
    ('{"input": "a"}\n\n{"input": "a"}', "c.jsonl", f"c.jsonl:3: the id '{Case('a').id}' is used twice"),
    (json.dumps({"input": "a", "id": "x" * 65}), "c.jsonl", f"expected at most {MAX_CASE_ID} characters"),
    ('{"input": "a", "id": "\\ud800"}', "c.jsonl", "c.jsonl:1: id is '\\ud800': expected"),
    ('{"input": ' + "[" * 10**5, "c.jsonl", "c.jsonl:1: maximum recursion depth exceeded"),
    ("x = " + "[" * 10**5, "c.toml", "c.toml: "),
    ("[[cases]]\ninput = 3", "c.toml", "c.toml: case 1: Expected `str | array`"),
    ("x = ", "c.toml", "c.toml: Invalid value (at end of document)"),
    ("x = 3", "c.toml", "c.toml: cases is None: expected [[cases]]"),
    *(
        (
            json.dumps({"input": "a", "metadata": {key: value}}),
            "c.jsonl",
            f"c.jsonl:1: {key} of its metadata is {said}",
        )
        for key, value, said in (
            ("approve", "refund*", "'refund*': expected a list"),
            ("calls", "refund", "'refund': expected a list"),
            ("label", "good", "'good': expected a number from 0 to 1"),
            ("label", 7, "7: expected a number from 0 to 1"),
        )
    ),
]


@pytest.mark.parametrize(("text", "place", "fault"), BROKEN)
def test_a_broken_line_is_named_with_its_reason(text, place, fault):
    """Before anything runs (13.7)."""
    with pytest.raises(OptionError) as error:
        read_cases(text, place)
    assert fault in str(error.value)


def test_all_broken_lines_are_named_at_once():
    """And a dataset made in Python is held to the same."""
    with pytest.raises(OptionError) as error:
        read_cases('nope\n{"input": "a"}\n{"input": ""}', "c.jsonl")
    assert [fault.partition(": ")[0] for fault in error.value.faults] == ["c.jsonl:1", "c.jsonl:3"]
    with pytest.raises(OptionError, match="sums: case 2: the id"):
        Dataset("sums", [CASE, CASE])
    with pytest.raises(OptionError, match="sums: there are no cases"):
        Dataset("sums", [])
    assert Dataset("sums", [CASE]).cases == (CASE,)


# --- traces


def said(seq, event, at_ms=0):
    meta = Envelope("s", seq, at_ms, ("s",))
    return type(event)(**{**{name: getattr(event, name) for name in event.__struct_fields__}, "meta": meta})


def answer(text, **usage):
    message = AssistantMessage(content=(Text(text=text),), model="m", stop_reason="end")
    return ResponseComplete(message=message, usage=TokenUsage(**usage), stop_reason="end")


def test_a_session_has_a_trace_after_each_step():
    """Each has all events so far, and the effects of its own step."""
    heard = [said(number, answer("Hi.", output=number)) for number in (1, 2)]
    traces = list(traces_of([(heard[:1], {}), ([], {"pay": "once"}), (heard[1:], {})]))
    assert [len(one.events) for one in traces] == [1, 1, 2]
    assert [dict(one.effects) for one in traces] == [{}, {"pay": "once"}, {}]


ENDS = [
    ((), ("open", "")),
    ((AgentStart(ref=PromptRef("p")),), ("open", "")),
    ((AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end"), SessionEnd(reason="x")), ("done", "")),
    ((AgentAbort(reason="too slow"),), ("aborted", "too slow")),
    ((AgentAbort(reason=None),), ("aborted", "")),
    ((AgentError(error=ErrorInfo(code="budget", message="spent")),), ("failed", "budget: spent")),
    ((AgentStart(ref=PromptRef("p")), SessionParked(reason="it crashed")), ("crashed", "it crashed")),
    ((AgentAbort(reason="x"), AgentStart(ref=PromptRef("p"))), ("open", "")),
]


@pytest.mark.parametrize(("events", "outcome"), ENDS)
def test_a_trace_says_how_the_last_cycle_ended(events, outcome):
    """With the reason if it is not done. Events without an envelope have no time."""
    trace = trace_of(events)
    assert (trace.outcome, trace.error, trace.milliseconds) == (*outcome, 0)


def test_a_trace_adds_up_its_cycles():
    """A cycle that ended counts with what it and its agents used, one that failed with its responses."""
    end = AgentEnd(messages=(), usage=TokenUsage(input=10, output=5), stop_reason="end")
    events = [
        said(1, AgentStart(ref=PromptRef("p")), 1_000),
        said(2, answer("One.", input=3), 1_100),
        said(3, end, 1_500),
        said(4, AgentStart(ref="q"), 2_000),
        said(5, answer("Two.", input=4, output=2), 2_100),
        said(6, AgentError(error=ErrorInfo(code="x", message="y")), 2_200),
    ]
    trace = trace_of(events, {"add": "pure"})
    assert (trace.text, trace.turns, trace.cycles, trace.milliseconds) == ("Two.", 2, 2, 700)
    assert (trace.usage.input, trace.usage.output) == (14, 7)
    assert (trace.events, trace.effects) == (tuple(events), {"add": "pure"})


def test_a_trace_costs_as_much_as_its_events():
    """Twice as many calls take twice as many steps of the interpreter, and not four times as many."""

    def steps_for(count):
        calls = [ToolCall(call_id=f"c-{number}", name="add", arguments={}) for number in range(count)]
        said = [
            ResponseComplete(
                message=AssistantMessage(content=(one,), model="m"), usage=TokenUsage(), stop_reason="tools"
            )
            for one in calls
        ]
        result = [ToolResult(call_id=one.call_id, name="add", text="1") for one in calls]
        ends = [ToolExecutionEnd(name="add", call_id=one.call_id, result=one) for one in result]
        events = [event for pair in zip(said, ends, strict=True) for event in pair]
        profile = cProfile.Profile()
        trace = profile.runcall(trace_of, events)
        assert [(one.call.call_id, one.outcome) for one in trace.calls] == [
            (one.call_id, "done") for one in calls
        ]
        return sum(one.callcount for one in profile.getstats())

    assert steps_for(200) < 2.2 * steps_for(100)


# --- scorers


def call(name, arguments, *, outcome="done", effective=None, approved=False):
    verdict = "approved" if approved else "rejected"
    return CallStory(
        call=ToolCall(call_id=f"c-{name}", name=name, arguments=arguments),
        seq=1,
        at_ms=0,
        effective=effective,
        gates=[CallGate(gate="approval", verdict=verdict, by="user", reason=None, at_ms=0)],
        outcome=outcome,
    )


def trace(text="", *calls, **given):
    return Trace(text=text, calls=calls, outcome="done", **given)


def ran(*calls, **given):
    """A trace of calls that really ran."""
    measured = [
        ToolExecutionMetrics(
            name="x", call_id=one.call.call_id, started_at_ms=0, ended_at_ms=1, duration_ms=1
        )
        for one in calls
    ]
    return trace("", *calls, events=(AgentStart(ref=PromptRef("p")), *measured), **given)


LOOK, BUY = call("look", {"q": "tea", "n": 3}), call("buy", {"item": "tea"})
BOTH = trace("", LOOK, BUY)
PAID = TokenUsage(input=1, output=1, cost_usd=0.02)
UNPAID = TokenUsage(input=1, output=1, cost_usd=None)

SCORED = [
    (exact, trace(" 5\n"), CASE, 1, ""),
    (exact, trace("It is 5."), CASE, 0, "got 'It is 5.'"),
    (contains, trace("It is 5."), CASE, 1, ""),
    (contains, trace("HELLO you"), Case("x", ["hello", "You"]), 1, ""),
    (contains, trace("Hello"), Case("x", ["hello", "you"]), 0, "'Hello' lacks ['you']"),
    (json_equals, trace('{"a": [1]}'), Case("x", {"a": [1]}), 1, ""),
    (json_equals, trace('{"a": [2]}'), Case("x", {"a": [1]}), 0, 'got {"a": [2]}'),
    (json_equals, trace("no"), Case("x", {"a": [1]}), 0, "got no"),
    (schema, trace("3"), Case("x", {"type": "integer"}), 1, ""),
    (partial(schema, schema={"type": "integer"}), trace("3"), CASE, 1, ""),
    (partial(schema, schema={"type": "string"}), trace("3"), CASE, 0, "string"),
    (schema, trace("three"), Case("x", {"type": "integer"}), 0, "not JSON"),
    (tools_called, BOTH, CASE, 1, ""),
    (tools_called, BOTH, Case("x", metadata={"calls": ["look", {"buy": {"item": "tea"}}]}), 1, ""),
    (partial(tools_called, calls=[{"look": {"q": "tea"}}]), BOTH, CASE, 1, ""),
    (partial(tools_called, calls=[{"look": {"q": "jam"}}]), BOTH, CASE, 0, "no call of look with {'q': 'jam'}; called: look, buy"),
    (partial(tools_called, calls=[{"look": {"x": 1}}]), BOTH, CASE, 0, "no call of look"),
    (partial(tools_called, calls=["buy", "look"]), BOTH, CASE, 0, "no call of look"),
    (partial(tools_called, calls=["buy", "look"], in_order=False), BOTH, CASE, 1, ""),
    (partial(tools_called, calls=["buy", "buy"], in_order=False), BOTH, CASE, 0, "no call of buy"),
    (partial(tools_called, at_most=1), BOTH, CASE, 0, "2 calls, at most 1 expected: look, buy"),
    (partial(tools_called, at_most=0), trace(), CASE, 1, ""),
    (partial(tools_called, calls=["look"]), trace(), CASE, 0, "called: none"),
    (tools_called, trace("", call("look", {"q": "a"}, effective={"q": "b"})), Case("x", metadata={"calls": [{"look": {"q": "b"}}]}), 1, ""),
    (approved_first, ran(LOOK, BUY), CASE, 0, "ran without an approval: look, buy"),
    (approved_first, ran(LOOK, effects={"look": "pure"}), CASE, 1, ""),
    (approved_first, ran(call("buy", {}, approved=True)), CASE, 1, ""),
    (approved_first, BOTH, CASE, 1, ""),
    (approved_first, trace("", call("buy", {}, outcome="killed")), CASE, 0, "buy"),
    (partial(approved_first, effects=["reconcilable"]), ran(LOOK, BUY), CASE, 1, ""),
    (partial(below, turns=2, cost_usd=0.02, seconds=1.5), trace(turns=2, usage=PAID, milliseconds=1_500), CASE, 1, ""),
    (partial(below, turns=2), trace(turns=3), CASE, 0, "3 turns, limit 2"),
    (partial(below, cost_usd=0.01), trace(usage=PAID), CASE, 0, "0.02 USD, limit 0.01"),
    (partial(below, cost_usd=9), trace(usage=UNPAID), CASE, 0, "inf USD, limit 9"),
    (partial(below, seconds=1, turns=1), trace(milliseconds=1_001, turns=2), CASE, 0, "2 turns, limit 1; 1.001 s, limit 1"),
]  # fmt: skip


@pytest.mark.parametrize(("scorer", "trace", "case", "value", "reason"), SCORED)
def test_a_built_in_scorer_says_what_is_missing(scorer, trace, case, value, reason):
    """Each has cases on both sides of its bound."""
    score = score_of(scorer, trace, case)
    assert (score.value, score.is_error) == (value, False)
    assert reason in score.reason
    assert bool(score.reason) == (value == 0)


OWN = [
    (lambda _trace, _case: True, Score(1.0)),
    (lambda _trace, _case: 0.25, Score(0.25)),
    (lambda _trace, _case: Score(0.5, "half"), Score(0.5, "half")),
]


@pytest.mark.parametrize(("scorer", "score"), OWN)
def test_a_function_of_yours_is_a_scorer(scorer, score):
    """It gives a score, a truth or a number."""
    assert score_of(scorer, trace(), CASE) == score


WRONG = [
    lambda _trace, _case: 2,
    lambda _trace, _case: "good",
    lambda _trace, _case: Score(-1.0),
    lambda _trace: 1,
    lambda _trace, _case: sys.exit("no such file"),
]


@pytest.mark.parametrize("scorer", WRONG)
def test_a_scorer_that_fails_scores_an_error(scorer):
    """So does one that gives something else: the eval goes on (13.7)."""
    score = score_of(scorer, trace(), CASE)
    assert (score.value, score.is_error, bool(score.reason)) == (0.0, True, True)


def test_what_did_not_end_scores_nothing_whatever_the_scorer_would_say():
    """A crash or a time limit is a failure, not a missing result."""
    cut = Trace(outcome="aborted", error="the time limit of 3 s")
    assert score_of(lambda _trace, _case: 1, cut, CASE) == Score(0.0, "aborted: the time limit of 3 s")


def test_scorers_have_names_and_files_name_them():
    """A partial has the name of its function, and an unknown name the nearest one (13.7)."""
    assert [scorer_name(one) for one in (exact, partial(below, turns=1), Judge(rubric="r", model="m"))] == [
        "exact",
        "below",
        "judge",
    ]
    assert scorer_name(partial(Case)) == "Case"
    assert score_of(Judge(rubric="r", model="m"), trace(), CASE).is_error
    assert score_of(scorer_from("exact"), trace("5"), CASE).value == 1
    assert score_of(scorer_from({"below": {"turns": 1}}), trace(turns=2), CASE).value == 0
    assert scorer_from({"judge": {"rubric": "r", "model": "demo:"}}) == Judge(rubric="r", model="demo:")
    for given, fault in [
        ("exakt", "there is no scorer 'exakt': did you mean 'exact'?"),
        ("zzz", "give module:NAME, or one of exact, contains, json_equals, schema, tools_called, approved_first, below, judge"),
        ({}, "there is no scorer '{}'"),
        ({"below": {"truns": 1}}, "scorer 'below': got an unexpected keyword argument 'truns'"),
        ({"judge": {"rubric": "r"}}, "scorer 'judge': Judge.__init__() missing 1 required keyword-only argument: 'model'"),
    ]:  # fmt: skip
        with pytest.raises(OptionError) as error:
            scorer_from(given)
        assert fault in str(error.value)


def test_a_judge_is_asked_about_the_answer_as_data_and_its_verdict_is_read():
    """Its answer is JSON with a reason. One that is not is an error of the scorer."""
    judge = Judge(rubric="Polite?", model="m")
    assert "Polite?" in judge.options()["system_prompt"]
    assert json.loads(judge.question(trace("5", LOOK), CASE)) == {
        "input": "What is 2 + 3?",
        "expected": "5",
        "answer": "5",
        "calls": [{"look": {"q": "tea", "n": 3}}],
    }
    assert judge.verdict(trace('{"reason": "curt", "value": 0.4}')) == Score(0.4, "curt")
    score = judge.verdict(Trace(text="fine", outcome="failed", error="budget: spent"))
    assert (score.value, score.is_error) == (0.0, True)
    assert "failed budget: spent" in score.reason


# --- statistics


def test_an_interval_contains_the_mean_and_narrows_with_more_cases():
    """Same seed, same interval. It does not contain what no resample can reach."""
    few, many = interval_of([0.0, 1.0] * 5), interval_of([0.0, 1.0] * 200)
    assert few.low < few.mean == 0.5 < few.high
    assert many.high - many.low < (few.high - few.low) / 3
    assert interval_of([0.0, 1.0] * 5) == few != interval_of([0.0, 1.0, 0.5] * 5, seed=1)
    assert str(interval_of([1.0])) == "1.000 [1.000, 1.000]"


def test_the_interval_agrees_with_that_of_the_normal_distribution():
    """1.96 standard errors on each side, for a mean of many draws."""
    values = [1.0] * 300 + [0.0] * 100
    found = interval_of(values)
    half = 1.96 * (0.75 * 0.25 / 400) ** 0.5
    assert found.low == pytest.approx(0.75 - half, abs=0.01)
    assert found.high == pytest.approx(0.75 + half, abs=0.01)


@pytest.mark.parametrize(
    ("k", "runs", "passed", "one", "every"),
    [(1, 4, 2, 0.5, 0.5), (2, 4, 2, 5 / 6, 1 / 6), (4, 4, 2, 1, 0), (3, 3, 3, 1, 1), (2, 3, 0, 0, 0)],
)
def test_pass_at_k_and_pass_all_k_count_draws_without_replacement(k, runs, passed, one, every):
    """The unbiased estimators, worked out by hand."""
    assert (pass_at(k, runs, passed), pass_all(k, runs, passed)) == (pytest.approx(one), pytest.approx(every))


def test_kappa_is_agreement_beyond_chance():
    """The textbook example with 20, 5, 10 and 15 cases, and none where one word would have done."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert kappa_of(pairs) == pytest.approx(0.4)
    assert kappa_of([(True, True)] * 3) is None


# --- reports


def run(case, *values, repeat=1, outcome="done", is_error=False, **given):
    scores = {f"s{place}": Score(value, f"r{place}", is_error) for place, value in enumerate(values)}
    return CaseRun(
        case=case,
        repeat=repeat,
        session=f"e-{case}-{repeat}".replace("\x1b", "-"),
        outcome=outcome,
        scores=scores,
        **given,
    )


def report(*runs):
    return EvalReport(name="sums", runs=runs)


def test_a_report_sums_up_by_scorer_by_case_and_by_repeat():
    """Cases count alike, however often they ran."""
    found = report(run("a", 1, 1), run("a", 1, 0, repeat=2), run("b", 0, 1), run("b", 0, 1, repeat=2))
    means = {name: interval.mean for name, interval in found.summary()}
    assert means == {
        "s0": 0.5, "s1": 0.75, "all": 0.625, "pass@1": 0.25, "pass^1": 0.25, "pass@2": 0.5, "pass^2": 0,
    }  # fmt: skip
    assert found.mean == 0.625
    assert [one.session for one in found.worst(2)] == ["e-a-2", "e-b-1"]
    once = report(run("a", 1))
    assert ([name for name, _ in once.summary()], once.worst(3)) == (["s0", "all"], [])


ALMOST: list[tuple[Any, ...]] = [(True,), (0.0, ValueError("\ud800")), (0.0, None, 1)]


@pytest.mark.parametrize("given", [Score(*one) for one in ALMOST], ids=repr)
def test_a_score_that_is_almost_one_can_be_reported(given):
    """Scorers give a bool as the value and an exception as the reason. The report is a baseline all the same."""
    score = score_of(lambda _trace, _case: given, trace(), CASE)
    found = report(CaseRun(case="a", repeat=1, session="s", outcome="done", scores={"s": score}))
    assert decode_report(encode_report(found), "base.json") == found
    assert (score.value, score.reason) == (given.value, "?" if isinstance(given.reason, ValueError) else "")


def test_a_run_says_why_it_did_not_pass():
    """Those scorers that did not, or the one reason for all of them."""
    assert run("a", 0.4, 0.5).reasons == "s0: r0"
    assert run("a", 0, 0, outcome="crashed", error="it fell").reasons == "crashed: it fell"


def test_a_baseline_is_compared_on_the_cases_in_common():
    """The flipped ones are named, and so are those of one report alone (13.7)."""
    before = report(run("a", 1), run("b", 0), run("c", 1), run("d", 1), run("old", 1))
    now = report(run("a", 0), run("b", 1), run("c", 1), run("d", 1), run("d", 0, repeat=2), run("new", 1))
    found = compare_reports(now, before)
    assert (found.broken, found.mended) == (("a", "d"), ("b",))
    assert (found.only_now, found.only_before) == (("new",), ("old",))
    assert found.difference.mean == pytest.approx(-0.125)
    assert compare_reports(report(run("x", 1)), before).difference is None


def test_a_report_is_read_as_it_was_written():
    """What is none is refused, with its place."""
    found = report(run("a", 1, cost_usd=0.5), run("b", 0.25, outcome="failed", error="x"))
    assert decode_report(encode_report(found), "base.json") == found
    with pytest.raises(OptionError, match=r"base.json is not a report of agentrail eval: Object missing"):
        decode_report(b"{}", "base.json")
    for spoiled in (encode_report(report(run("a"))), b"[" * 10**5):
        with pytest.raises(OptionError, match=r"base.json is not a report of agentrail eval"):
            decode_report(spoiled, "base.json")


def test_a_junit_reader_finds_failures_and_errors():
    """A low score is a failure; a crash, or a scorer that failed, an error. Control characters do not break it."""
    found = report(
        run("good", 1, milliseconds=1_500),
        run("bad", 0, milliseconds=500),
        run("down", 0, outcome="crashed", error="\x1b[31mno\x00"),
        run("broken\x1bscorer", 0, is_error=True),
    )
    suite = Xml.fromstring(encode_junit(found))  # noqa: S314 - our own
    assert suite.tag == "testsuite"
    assert suite.attrib == {
        "name": "sums", "tests": "4", "failures": "1", "errors": "2", "skipped": "0", "time": "2.000",
    }  # fmt: skip
    assert [(one.attrib["name"], [part.tag for part in one]) for one in suite] == [
        ("good[1]", ["system-out"]),
        ("bad[1]", ["failure", "system-out"]),
        ("down[1]", ["error", "system-out"]),
        ("broken\ufffdscorer[1]", ["error", "system-out"]),
    ]
    assert suite[2][0].attrib["message"] == "crashed: \ufffd[31mno\ufffd"
    assert suite[0][0].text == "session e-good-1"
