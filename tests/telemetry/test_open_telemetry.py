"""Spans of ours leave through any official exporter, the same live and again from a journal (docs: see what your agents do)."""

import logging
from contextlib import nullcontext
from random import Random

import msgspec
import pytest
import trio
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

import agentrail
from agentrail import tool
from agentrail.abc.event_reader import SessionOrigin
from agentrail.errors import Overloaded
from agentrail.events import AgentEnd, AgentStart, Envelope, PromptReceived
from agentrail.frozen import EMPTY
from agentrail.messages import PromptRef, Text, TokenUsage, TraceContext
from agentrail.outside import installed
from agentrail.runtime.supervisor_gauges import measured
from agentrail.stores.audit_file import AuditFile
from agentrail.stores.memory import MemoryStore
from agentrail.telemetry import OpenTelemetry, reader
from agentrail.telemetry.audit import AuditLog
from agentrail.telemetry.metric_totals import OPEN_METRICS
from agentrail.telemetry.metrics import Metrics
from agentrail.telemetry.reader import TelemetryReader
from agentrail.telemetry.sdk_spans import NotExported, OtlpExporter
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.clock import FakeClock
from agentrail.testing.digest import Digest
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.testing.seeded import SeededMachine, seeded_order
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import Inline, NoSandbox, eventually, on_virtual_time, saying
from tests.telemetry.collectors import collecting

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}"


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Tee(SpanExporter):
    """Two exporters at once."""

    def __init__(self, *exporters):
        self.exporters = exporters

    def export(self, spans):
        results = {one.export(spans) for one in self.exporters}
        return SpanExportResult.SUCCESS if results == {SpanExportResult.SUCCESS} else SpanExportResult.FAILURE


class Faulty(InMemorySpanExporter):
    """An exporter in memory that first does these things, one for each call: raises it, returns it, or calls it."""

    def __init__(self, *faults):
        super().__init__()
        self.faults = list(faults)

    def export(self, spans):
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, BaseException):
            raise fault
        if callable(fault):
            fault()
        elif fault is not None:
            return None if fault == "nothing" else fault
        return super().export(spans)


def open_traced(exporter=None, *, store=None, **options):
    telemetry = options.pop("telemetry", None) or OpenTelemetry(exporter=exporter, **options.pop("given", {}))
    return open_nameless(
        lambda _name, _root: NoSandbox(),
        store=store,
        reader=TelemetryReader([telemetry.consumer(), *options.pop("others", ())]),
        **options,
    )


def slowly(text):
    return ScriptedModel([says(text, pause_seconds=2)])


def two_calls_and_a_retry():
    return ScriptedModel(
        [
            fails(Overloaded("busy")),
            calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})),
            says("3 and 7"),
        ]
    )


async def run_cycle(supervisor, session_id="s-1", **options):
    session = await supervisor.start_session(
        model=two_calls_and_a_retry(), tools=[add], session_id=session_id, user_data={"agent_id": "desk"}
    )
    await session.ask("Add, please", **options)
    return session


def as_plain(span):
    """What an SDK span says, as the OTLP message of the same span says it."""
    return (
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        f"{span.parent.span_id:016x}" if span.parent else "",
        span.name,
        span.start_time,
        span.end_time,
        sorted((key, str(value)) for key, value in span.attributes.items() if not isinstance(value, tuple)),
        [(one.name, one.timestamp) for one in span.events],
        span.status.status_code.value,
    )


def as_decoded(span):
    def value(one):
        kind = one.WhichOneof("value")
        return None if kind == "array_value" else str(getattr(one, kind))

    return (
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        sorted((one.key, value(one.value)) for one in span.attributes if value(one.value) is not None),
        [(one.name, one.time_unix_nano) for one in span.events],
        span.status.code,
    )


@pytest.mark.operation(2)
async def test_the_exporter_in_memory_and_a_collector_receive_the_same():
    """Names, ids, parents, times, attributes, moments and status, over HTTP and protobuf."""
    with collecting() as collector:
        memory = InMemorySpanExporter()
        sent = OpenTelemetry(exporter=collector.url, resource={"service.name": "desk"})
        both = Tee(memory, sent.consumer()._exporter)  # noqa: SLF001 - the exporter that it makes of an address
        telemetry = OpenTelemetry(exporter=both, resource={"service.name": "desk"})
        async with agentrail.open_supervisor(telemetry=telemetry) as supervisor:
            await run_cycle(supervisor)
    spans = memory.get_finished_spans()
    assert [span.name for span in spans] == [
        "chat object", "chat object", "execute_tool add", "execute_tool add", "chat object", "invoke_agent desk",
    ]  # fmt: skip
    assert [as_plain(span) for span in spans] == [as_decoded(span) for span in collector.spans]
    assert collector.resources[0] == {"service.name": "desk"}
    (root,) = [span for span in spans if span.parent is None]
    assert {span.parent.span_id for span in spans if span is not root} == {root.context.span_id}


@on_virtual_time
@pytest.mark.at(153)
@pytest.mark.operation(3)
@pytest.mark.parametrize("mode", ["cancel", "crash", "abort"])
async def test_no_span_stays_open_wherever_a_session_is_struck(mode):
    """Each trace is complete, its parents are in it, no id comes twice, and no task is left."""
    consumers = []

    def make_reader():
        consumers.append(OpenTelemetry(exporter=InMemorySpanExporter()).consumer())
        return TelemetryReader([consumers[-1]])

    async def scenario(stage):
        model = ScriptedModel([calls(("add", {"a": 1, "b": 2})), says("3")] * 3)
        session = await stage.start_session(model=model, tools=[add])
        await session.ask("Go")

    with installed(Inline()):
        rounds = await cancel_everywhere(
            scenario, mode=mode, make_sandbox=lambda _name, _root: NoSandbox(), make_reader=make_reader
        )
    assert rounds > 20
    assert len(consumers) == rounds
    for consumer in consumers:
        assert not consumer._folds  # noqa: SLF001 - spans that are open
        spans = consumer._exporter.get_finished_spans()  # noqa: SLF001 - where they went
        ids = [span.context.span_id for span in spans]
        assert len(ids) == len({*ids})
        assert {span.parent.span_id for span in spans if span.parent} <= {*ids}
    assert max(len(consumer._exporter.get_finished_spans()) for consumer in consumers) == 4  # noqa: SLF001 - as above


@on_virtual_time
@pytest.mark.operation(4)
async def test_without_content_no_word_of_a_conversation_leaves():
    """Neither with spans nor with metrics; and with content each of them does."""
    canaries = {
        name: f"canary-{name}-4711" for name in ("prompt", "answer", "argument", "result", "tool", "error")
    }

    @tool
    def echo(text: str) -> str:
        """Say it."""
        if text == "raise":
            raise RuntimeError(canaries["error"])
        return str(canaries["result"])

    model = ScriptedModel(
        [
            calls(
                ("echo", {"text": canaries["argument"]}), (canaries["tool"], {}), ("echo", {"text": "raise"})
            ),
            says(canaries["answer"]),
        ]
        * 2
    )
    quiet, full, metrics, scrapes = InMemorySpanExporter(), InMemorySpanExporter(), Metrics(), []
    with installed(Inline()):
        for exporter, content in ((quiet, False), (full, True)):
            traced = open_traced(exporter, given={"content": content}, others=[metrics])
            async with traced as supervisor:
                with measured(supervisor, metrics):
                    session = await supervisor.start_session(
                        model=model, tools=[echo], user_data={"secret": canaries["prompt"]}
                    )
                    await session.ask(canaries["prompt"])
                    await trio.sleep(1)
                    scrapes += [(await metrics.render(kind))[1].decode() for kind in ("", OPEN_METRICS)]
    said, shown = ("".join(span.to_json() for span in one.get_finished_spans()) for one in (quiet, full))
    assert not [name for name, canary in canaries.items() if canary in "".join([said, *scrapes])]
    assert all('agentrail_tool_calls_total{outcome="failed",tool="echo"}' in one for one in scrapes)
    assert [name for name, canary in canaries.items() if canary in shown] == [*canaries]


@on_virtual_time
@pytest.mark.operation(6)
@pytest.mark.parametrize("has_store", [True, False])
@pytest.mark.parametrize(
    ("cycles", "queue"), [(200, 100), pytest.param(10_000, reader.QUEUE_EVENTS, marks=pytest.mark.check)]
)
async def test_an_exporter_that_hangs_costs_no_cycle_and_no_memory(monkeypatch, has_store, cycles, queue):
    """With a store no span is missing when it is back, without one the counter says how many events were dropped."""
    monkeypatch.setattr(reader, "QUEUE_EVENTS", queue)
    exporter = InMemorySpanExporter()
    consumer = OpenTelemetry(exporter=exporter).consumer()
    gate = trio.Event()

    class Hanging(Inline):
        async def offload(self, function, /, *args, **options):
            if getattr(function, "__name__", "") == "send_spans":
                await gate.wait()
            return await super().offload(function, *args, **options)

    with installed(Hanging()):
        store = MemoryStore(lease_ms=0) if has_store else None
        lines = TelemetryReader([consumer])
        async with open_nameless(lambda _name, _root: NoSandbox(), store=store, reader=lines) as supervisor:
            for _session in range(cycles // 100):  # a long one would be compacted
                session = await supervisor.start_session(model=FunctionModel(lambda _request: says("done")))
                for number in range(100):
                    await session.ask(f"{number}")
                    await trio.sleep(0.1)
            counts = supervisor.statistics().consumers[0]
            assert counts.behind + counts.dropped > cycles * 3
            assert len(consumer._made) < 1_000  # noqa: SLF001 - what it holds
            assert len(lines._lines[0]._queue) == queue  # noqa: SLF001 - what waits for it
            gate.set()
            await trio.sleep(60)
            counts = supervisor.statistics().consumers[0]
            assert counts.behind == 0
            assert (counts.dropped == 0) is has_store
    found = [span.name for span in exporter.get_finished_spans()]
    if has_store:
        assert found.count("invoke_agent") == found.count("chat object") == cycles


@on_virtual_time
async def test_an_exporter_that_raises_or_lies_is_tried_again_with_the_same_spans(caplog):
    """With one warning, and nothing is sent twice."""
    faults = (
        *(RuntimeError("broken"), SpanExportResult.FAILURE, "nothing"),
        *(SystemExit("over"), KeyboardInterrupt()),  # neither ends the process
    )
    exporter = Faulty(*faults)
    with installed(Inline()):
        async with open_traced(exporter) as supervisor:
            session = await supervisor.start_session(model=saying("done"))
            await session.ask("Hi")
            await trio.sleep(60)
            assert supervisor.statistics().consumers[0].failures == len(faults)
            assert [span.name for span in exporter.get_finished_spans()] == ["chat object", "invoke_agent"]
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warned) == 1
    assert "spans" in warned[0]


@on_virtual_time
async def test_a_cycle_whose_end_could_not_be_sent_is_sent_by_the_next_process():
    """Its beginning was taken, and its end was not: the cursor stays in front of both, although nothing is open any more."""
    store, first, second = MemoryStore(lease_ms=0), Faulty(), InMemorySpanExporter()
    with installed(Inline()):
        async with open_traced(first, store=store) as supervisor:
            session = await supervisor.start_session(model=slowly("done"), session_id="s-1")
            await session.prompt("Hi")
            await trio.sleep(1)  # the events so far are taken
            first.faults = [OSError("away")] * 9
            await session.collect_reply()
            await supervisor.rest("s-1")
        assert not first.get_finished_spans()
        async with open_traced(second, store=store):
            await trio.sleep(1)
    assert [span.name for span in second.get_finished_spans()] == ["chat object", "invoke_agent"]


@on_virtual_time
async def test_sessions_that_use_an_id_one_after_the_other_each_have_their_spans():
    """Also if their events are taken together, and more than once."""
    exporter = Faulty(OSError("away"))
    with installed(Inline()):
        async with open_traced(exporter) as supervisor:
            for _ in range(3):
                session = await supervisor.start_session(model=saying("done"), session_id="s-1")
                await session.ask("Hi")
                await session.stop()
            await trio.sleep(10)
    assert [span.name for span in exporter.get_finished_spans()] == ["chat object", "invoke_agent"] * 3


async def test_an_unreachable_collector_is_found_again_and_what_it_rejects_is_counted(monkeypatch, caplog):
    """What a backend rejects is not sent again."""
    monkeypatch.setattr(reader, "FIRST_RETRY_SECONDS", 0.01)
    with collecting() as collector:
        collector.statuses, collector.rejects = [503, 500], 1
        exporter = OpenTelemetry(exporter=collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
        async with open_traced(telemetry=exporter) as supervisor:
            session = await supervisor.start_session(model=saying("done"))
            await session.ask("Hi")
            with trio.fail_after(20):
                await eventually(lambda: supervisor.statistics().consumers[0].rejected)
            counts = supervisor.statistics().consumers[0]
    assert len(collector.spans) == 2
    assert (counts.failures, counts.rejected) == (2, 1)
    (said,) = [one.getMessage() for one in caplog.records if one.name == "agentrail.telemetry"]
    assert "NotExported: status 503" in said
    with pytest.raises(NotExported, match="ConnectionError"):  # the collector has ended
        OtlpExporter(collector.url, int).export([])


@pytest.mark.parametrize(
    ("statuses", "max_bytes", "arrived"),
    [
        ([400], 10_000, []),
        ([], 700, ["chat object", "invoke_agent"]),  # each alone is smaller
        ([], 1, []),
    ],
)
async def test_spans_that_a_collector_never_takes_hold_up_no_others(statuses, max_bytes, arrived):
    """OTLP, failures: a request answered with 400 is not sent again. After 413 a smaller one is tried."""
    with collecting() as collector:
        collector.statuses, collector.max_bytes = statuses, max_bytes
        async with open_traced(telemetry=OpenTelemetry(exporter=collector.url)) as supervisor:
            session = await supervisor.start_session(model=saying("done"))
            await session.ask("Hi")
            with trio.fail_after(20):
                await eventually(
                    lambda: (
                        len(collector.spans) == len(arrived)
                        and not supervisor.statistics().consumers[0].behind
                    )
                )
            assert supervisor.statistics().consumers[0].rejected == 2 - len(arrived)
    assert [span.name for span in collector.spans] == arrived


def is_of_telemetry(task):
    return "telemetry" in task.name or task.name == "reader of events"


class ApartDigest(Digest):
    """Leaves out the steps of telemetry's own tasks."""

    def before_task_step(self, task):
        if not is_of_telemetry(task):
            super().before_task_step(task)


class ApartOrder(Random):
    """Draws the order of all other tasks as if those of telemetry did not exist: those run last in each batch."""

    def shuffle(self, batch):
        others = [task for task in batch if not is_of_telemetry(task)]
        super().shuffle(others)
        batch[:] = [*filter(is_of_telemetry, batch), *others]


class ApartMachine(SeededMachine):
    """Lets what telemetry offloads be late by draws of its own."""

    def __init__(self, seed):
        super().__init__(seed)
        self.own = SeededMachine(f"{seed}/telemetry")

    async def offload(self, function, /, *args, **options):
        if not is_of_telemetry(trio.lowlevel.current_task()):
            return await super().offload(function, *args, **options)

        def for_telemetry():
            return function(*args)

        return await self.own.offload(for_telemetry, **options)


@tool
async def add_slowly(a: int, b: int) -> str:
    """Add two numbers after some turns of the loop and a second."""
    for _turn in range(a):
        await trio.lowlevel.checkpoint()
    await trio.sleep(1)
    return str(a + b)


def seeded_digest(seed, store, metrics=None, *consumers):
    """What a seeded run did until its supervisor closes: that waits for the reader, so from there on it is another one."""
    digest = ApartDigest(keep_lines=True)

    async def scrape():
        while True:
            await metrics.render()
            await trio.sleep(0.7)

    async def main():
        reader = None if metrics is None else TelemetryReader([metrics, *consumers])
        async with (
            open_nameless(lambda _name, _root: NoSandbox(), store=store, reader=reader) as supervisor,
            trio.open_nursery() as nursery,
        ):
            with nullcontext() if metrics is None else measured(supervisor, metrics):
                if metrics is not None:
                    nursery.start_soon(scrape, name="scraper of telemetry")
                three = [("add_slowly", {"a": a, "b": b}) for a, b in ((3, 1), (1, 1), (2, 2))]
                turns = [fails(Overloaded("busy")), calls(*three), says("4, 2, 4")]
                for _session in range(3):
                    session = await supervisor.start_session(model=ScriptedModel(turns), tools=[add_slowly])
                    await session.ask("Add, please")
                    await trio.sleep(3)
                nursery.cancel_scope.cancel()
                return [*digest.lines, digest.hexdigest()]

    with seeded_order(seed, ApartOrder(seed)), installed(ApartMachine(seed)), digest.listening():
        return trio.run(main, clock=FakeClock(), instruments=[digest])


@pytest.mark.operation(23)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_digest_of_a_seeded_run_is_the_same_with_telemetry(seed, tmp_path):
    """Spans, metrics and the audit log, with scrapes: each step of each other task, at its time, and all that sessions do.

    The store is in memory. One with a thread writes the cursors in the task that writes the records, which has more steps
    for them: there, all of it is compared without consumers that have cursors.
    """
    exporter, metrics, audit = InMemorySpanExporter(), Metrics(), AuditFile(tmp_path / "audit.jsonl")
    consumers = [
        metrics,
        OpenTelemetry(exporter=exporter).consumer(),
        AuditLog(audit.read, audit.append, lambda *_: ()),
    ]
    bare = seeded_digest(seed, MemoryStore(lease_ms=0))
    assert bare == seeded_digest(seed, MemoryStore(lease_ms=0), *consumers)
    assert len(exporter.get_finished_spans()) == 21
    assert metrics.totals.by_series["agentrail_cycles_total", "ok", "other"].value == 3
    with_thread = seeded_digest(seed, FaultyStore(MemoryStore(lease_ms=0)))
    assert with_thread == seeded_digest(seed, FaultyStore(MemoryStore(lease_ms=0)), Metrics())


def traced_cycle(number, trace=None):
    """The events of one cycle, without a session."""
    ref = PromptRef(f"p{number}")
    events = (
        PromptReceived(ref=ref, content=(Text(text="Hi"),), trace=trace),
        AgentStart(ref=ref),
        AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end", ref=ref),
    )
    origin = SessionOrigin("", f"s-{number}", EMPTY)
    place = origin.session_id, (origin.session_id,)
    return [
        (origin, msgspec.structs.replace(event, meta=Envelope(place[0], seq, 1_000, place[1])))
        for seq, event in enumerate(events, 1)
    ]


@on_virtual_time
@pytest.mark.operation(26)
async def test_nodes_and_a_later_export_sample_the_same_traces():
    """By trace id, as the official sampler draws; and a caller's flag counts more, both ways."""
    official = TraceIdRatioBased(0.1)
    events = [one for number in range(1_000) for one in traced_cycle(number)]
    chosen = []
    with installed(Inline()):
        for sample in (1.0, 0.1, 0.1, 0.1):
            exporter = InMemorySpanExporter()
            for start in range(
                0, len(events), 500
            ):  # each time a consumer that begins anew, as after a restart
                consumer = OpenTelemetry(exporter=exporter, sample=sample).consumer()
                await consumer.take(events[start : start + 501])
            chosen.append({span.context.trace_id for span in exporter.get_finished_spans()})
        assert len(chosen[0]) == 1_000
        drawn = {one for one in chosen[0] if official.should_sample(None, one, "").decision.is_sampled()}
        assert 50 < len(drawn) < 150
        assert chosen[1:] == [drawn] * 3
        for sample, flags in ((0.0, "01"), (1.0, "00")):
            exporter = InMemorySpanExporter()
            trace = TraceContext(traceparent=PARENT.format(flags=flags))
            await OpenTelemetry(exporter=exporter, sample=sample).consumer().take(traced_cycle(1, trace))
            assert len(exporter.get_finished_spans()) == (flags == "01")
