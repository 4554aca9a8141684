"""`evaluate`: cases as sessions under one supervisor, with a store, a budget and a time limit."""

from functools import partial

import pytest
import trio

import agentrail
from agentrail.errors import OptionError, Overloaded
from agentrail.evals import Case, Dataset, Judge, Score, approved_first, contains, evaluate, tools_called
from agentrail.messages import TokenUsage
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from agentrail.tools import builtin

SUMS = Dataset("sums", [Case(f"What is {n} + 1?", str(n + 1), id=f"sum-{n}") for n in range(6)])


@agentrail.tool(effect_class="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder(case, **given):
    number = int(case.id.partition("-")[2])
    script = [calls(("add", {"a": number, "b": 1})), says(f"It is {number + 1}.")]
    return agentrail.Blueprint("adder", model=ScriptedModel(script), tools=[add], **given)


def agent(*turns, **given):
    return lambda _case: agentrail.Blueprint(model=ScriptedModel(turns), **given)


def outcomes(report):
    return [(one.case, one.outcome, one.value) for one in report.runs]


async def test_each_case_is_a_session_and_its_trace_is_scored():
    """In the order of the dataset, whichever ends first; each repeat is a session of its own."""
    report = await evaluate(
        SUMS, adder, [contains, partial(tools_called, calls=["add"], at_most=1)], repeats=2
    )
    assert [(one.case, one.repeat) for one in report.runs] == [
        (case.id, repeat) for case in SUMS.cases for repeat in (1, 2)
    ]
    assert report.mean == 1.0
    assert len({one.session for one in report.runs}) == 12
    first = report.runs[0]
    assert (first.turns, first.tokens, first.cost_usd, first.outcome, first.error) == (2, 30, 0.0, "done", "")


async def test_never_more_sessions_than_wanted_run_at_a_time():
    """And as many, while there are cases."""
    at_work, most = 0, 0

    async def answer(_request):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await trio.testing.wait_all_tasks_blocked()
        at_work -= 1
        return says("x")

    task = agentrail.Blueprint(model=FunctionModel(answer))
    await evaluate(SUMS, task, [contains], max_concurrency=3)
    assert most == 3


async def test_a_failure_a_crash_and_a_time_limit_are_scored_and_the_others_go_on(autojump_clock):
    """13.5. None of them ends the eval."""
    tasks = {
        "sum-0": [fails(Overloaded("busy"))],
        "sum-1": [says("2", pause_seconds=1_000)],
        "sum-2": [],
    }

    def task(case):
        turns = tasks.get(case.id)
        return adder(case) if turns is None else agent(*turns, max_retries=0)(case)

    report = await evaluate(SUMS, task, [contains], timeout_seconds=5)
    found = outcomes(report)
    assert [one[1:] for one in found] == [("failed", 0), ("aborted", 0), ("failed", 0)] + [("done", 1)] * 3
    assert report.runs[0].error == "overloaded: busy"
    assert report.runs[1].error == "the time limit of 5 s"
    assert report.runs[1].milliseconds == pytest.approx(5_000, abs=50)


async def test_a_session_that_ends_itself_is_a_crash():
    """Whoever stopped it: the case scores 0 with the reason."""

    async def answer(_request):
        await supervisor.stop_session(next(iter(supervisor.sessions())).session_id, "gone")
        return says("x")

    async with agentrail.open_supervisor(store="memory:") as supervisor:
        task = agentrail.Blueprint(model=FunctionModel(answer))
        report = await evaluate(Dataset("one", [Case("a")]), task, [contains], supervisor=supervisor)
    assert outcomes(report)[0][1:] in {("aborted", 0.0), ("crashed", 0.0)}


@pytest.mark.operation("O-012")
async def test_an_eval_that_was_killed_runs_only_what_is_missing():
    """Killed in the middle of a case: those that were done are only scored, the one that was cut starts again."""
    store, asked = MemoryStore(), []

    def task(case):
        def answer(_request):
            asked.append(case.id)
            return says(case.expected)

        return agentrail.Blueprint(model=FunctionModel(answer))

    async def hang(_request):
        await trio.sleep_forever()

    with trio.CancelScope() as killed:

        def first(case):
            return task(case) if case.id < "sum-3" else agentrail.Blueprint(model=FunctionModel(hang))

        async def watch():
            while len(done) < 3:
                await trio.testing.wait_all_tasks_blocked()
            killed.cancel()

        done = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await evaluate(SUMS, first, [contains], max_concurrency=2, store=store, on_run=done.append)
    assert killed.cancelled_caught
    assert sorted(asked) == ["sum-0", "sum-1", "sum-2"]
    asked.clear()
    report = await evaluate(SUMS, task, [contains], store=store)
    assert sorted(asked) == ["sum-3", "sum-4", "sum-5"]
    assert [one.is_reused for one in report.runs] == [True] * 3 + [False] * 3
    assert report.mean == 1.0
    asked.clear()
    again = await evaluate(SUMS, task, [contains], store=store)
    assert (asked, all(one.is_reused for one in again.runs)) == ([], True)
    await evaluate(SUMS, task, [contains], store=store, fresh=True)
    assert len(asked) == 6


async def test_a_changed_task_is_run_again():
    """Another prompt or tool makes other ids. Code that changed does not: `fresh` is for that."""
    store, model = MemoryStore(), FunctionModel(lambda _request: says("1"))
    one = Dataset("one", [Case("a", "1")])
    first = agentrail.Blueprint(model=model, tools=[add])
    await evaluate(one, first, [contains], store=store)
    for task in (first.override(system_prompt="Be brief."), first.override(tools=None)):
        report = await evaluate(one, task, [contains], store=store)
        assert not report.runs[0].is_reused
    assert (await evaluate(one, first, [contains], store=store)).runs[0].is_reused


async def test_several_prompts_are_given_one_after_the_other():
    """Each after the answer to the one before. A failed one is the last."""
    model = ScriptedModel([says("One."), says("Two.")])
    case = Case(("First?", "Second?"), "Two.")
    report = await evaluate(Dataset("d", [case]), agentrail.Blueprint(model=model), [contains])
    assert (report.mean, report.runs[0].turns, len(model.requests[1].messages)) == (1.0, 2, 3)
    bad = ScriptedModel([fails(Overloaded("busy")), says("Two.")])
    report = await evaluate(Dataset("d", [case]), agentrail.Blueprint(model=bad, max_retries=0), [contains])
    assert (report.mean, len(bad.requests)) == (0.0, 1)


async def test_calls_are_approved_as_the_case_says_and_refused_otherwise():
    """No user is there. `approved_first` sees the approval in the trace."""
    bought = []

    @agentrail.tool
    async def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return "bought"

    def task(case):
        script = [calls(("buy", {"item": case.id})), says("Done.")]
        return agentrail.Blueprint(
            model=ScriptedModel(script),
            tools=[buy],
            plugins=[(HumanApproval, {"require_approval_for": ["buy"]})],
        )

    cases = [Case("Buy tea.", "Done", {"approve": ["b*"]}, id="tea"), Case("Buy jam.", "Done", id="jam")]
    report = await evaluate(Dataset("shop", cases), task, [contains, approved_first])
    assert (bought, report.mean) == (["tea"], 1.0)


async def test_a_call_of_a_sub_agent_is_decided_too():
    """As the case says: its approval arrives inside the events of the session."""
    bought = []

    @agentrail.tool
    async def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return "bought"

    helper = agentrail.Agent(name="helper", description="Buys.", model="scripted:helper", tools=[buy])
    scripts = {"helper": ScriptedModel([calls(("buy", {"item": "tea"})), says("Bought.")])}
    script = [calls(("task", {"subagent_type": "helper", "description": "Buy tea."})), says("Done.")]
    plugins = [(HumanApproval, {"require_approval_for": ["buy"]})]
    task = agent(*script, agents=[helper], tools=builtin("task"), plugins=plugins)
    async with agentrail.open_supervisor(store="memory:", scripts=scripts) as supervisor:
        cases = Dataset("d", [Case("Tea!", "Done", {"approve": ["buy"]})])
        report = await evaluate(cases, task, [contains], supervisor=supervisor)
    assert (bought, outcomes(report)[0][1:]) == (["tea"], ("done", 1.0))


async def test_questions_and_calls_of_a_client_are_declined():
    """No user and no client is there, and the cycle goes on."""

    @agentrail.tool
    async def ask(ctx: agentrail.ToolContext) -> str:
        """Ask the user."""
        return str(await ctx.ask_user("Which?"))

    @agentrail.tool(answered_by="client")
    async def locate() -> str:
        """Return where the user is."""
        return ""

    script = [calls(("ask", {}), ("locate", {})), says("Done.")]
    task = agent(*script, tools=[ask, locate])
    report = await evaluate(Dataset("d", [Case("Where?", "Done")]), task, [contains])
    assert outcomes(report)[0][1:] == ("done", 1.0)


async def test_the_budget_is_for_all_sessions_together():
    """Each is lent a share of the rest, so greedy ones at one time never spend more; what does not fit says so."""

    def more(request):
        called = calls(("add", {"a": len(request.messages), "b": 1})).calls
        return Turn(calls=called, usage=TokenUsage(input=30, output=10))

    task = agentrail.Blueprint(model=FunctionModel(more), tools=[add], max_output_tokens=10)
    for limit in (2_000, 3_000):
        budget = agentrail.Budget(max_total_tokens=limit)
        report = await evaluate(SUMS, task, [contains], budget=budget, max_concurrency=3)
        assert limit * 0.3 < sum(one.tokens for one in report.runs) <= limit
        assert [one.error for one in report.runs if "budget" not in one.error] == []
    alone = Dataset("sums", SUMS.cases[:1])  # no other session needs a share
    report = await evaluate(alone, task, [contains], budget=agentrail.Budget(max_total_tokens=2_000))
    assert report.runs[0].tokens > 1_800
    own = task.override(budget=agentrail.Budget(max_total_tokens=200, max_cost_usd=1.0))
    report = await evaluate(SUMS, own, [contains], budget=agentrail.Budget(max_total_tokens=9_000))
    assert max(one.tokens for one in report.runs) <= 200
    report = await evaluate(SUMS, task, [contains], budget=agentrail.Budget(max_total_tokens=1))
    assert report.runs[0].outcome == "crashed"
    assert report.runs[0].error.endswith("the budget of the eval is spent")


async def test_a_judge_is_a_session_too_and_its_verdict_is_kept():
    """With the rubric as its prompt. The second time it is not asked again, and a case that failed has nothing to judge."""
    store = MemoryStore()
    verdict = FunctionModel(lambda _request: says('{"reason": "correct", "value": 0.75}'))
    judge = Judge(rubric="Is it correct?", model=verdict)
    for _ in range(2):
        report = await evaluate(SUMS, adder, [judge], store=store)
        assert [one.scores["judge"] for one in report.runs] == [Score(0.75, "correct")] * 6
        assert len(verdict.requests) == 6
    assert "Is it correct?" in verdict.requests[0].system
    failed = await evaluate(SUMS, agent(fails(Overloaded("x")), max_retries=0), [judge], store=store)
    assert (failed.mean, len(verdict.requests)) == (0.0, 6)


REFUSED = [
    ({"scorers": []}, "expected scorers with different names"),
    ({"scorers": [contains, contains]}, "expected scorers with different names"),
    ({"repeats": 0}, "repeats 0"),
    ({"max_concurrency": 0}, "max_concurrency 0"),
    ({"timeout_seconds": 0}, "timeout_seconds 0"),
    ({"timeout_seconds": float("nan")}, "timeout_seconds nan"),
    ({"on_run": trio.sleep}, "on_run is <function sleep"),
    ({"task": agentrail.Blueprint(model="nowhere:x")}, "there is no provider 'nowhere'"),
]


@pytest.mark.parametrize(("given", "fault"), REFUSED)
async def test_what_cannot_run_is_refused_with_one_error(given, fault):
    """It is no group of errors, however many sessions there would be."""
    given = {"task": adder, "scorers": [contains], **given}
    with pytest.raises(agentrail.AgentrailError) as error:
        await evaluate(SUMS, given.pop("task"), given.pop("scorers"), **given)
    assert fault in str(error.value)
    assert isinstance(error.value, OptionError | agentrail.ProviderError)
