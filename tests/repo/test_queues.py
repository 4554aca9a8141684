"""Every queue in the process has a limit, and a stated policy for what happens at it."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from agentrail.core.protocol.effects import Refuse
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import Prompt, ReplyQuery, SignalId, Steer
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import SessionConfig
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import MailboxFull, PromptQueueFull, SteeringQueueFull
from agentrail.messages import PromptRef, SessionId, SteerRef, Text

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "agentrail"
MAKERS: Final = frozenset({"deque", "open_memory_channel", "Queue", "SimpleQueue", "PriorityQueue"})

QUEUES: Final = {
    "gateway/socket_queue.py:_frames": (
        "max_frames and max_bytes; beyond them the socket closes",
        "tests/gateway/test_socket_queue.py",
    ),
    "otp/tracebacks.py:waiting": ("GROUP_LIMIT exceptions inside of groups", "tests/otp/test_tracebacks.py"),
    "blocking/supervisor_thread.py:_come": (
        "the calls of other threads, begun one each turn",
        "tests/test_blocking.py",
    ),
    "blocking/iterators.py:_taken": ("MAX_TAKEN", "tests/test_blocking.py"),
    "actors/mailbox.py:_queue": ("capacity", "tests/actors/test_mailbox.py"),
    "actors/mailbox.py:_NO_MAIL": ("holds nothing, `maxlen=0`", "tests/actors/test_mailbox.py"),
    "actors/mailbox.py:_control": (
        "its supervisor sends one shutdown and few questions",
        "tests/actors/test_mailbox.py",
    ),
    "actors/address.py:_held": ("hold_limit", "tests/actors/test_addresses.py"),
    "actors/actor_registry.py:_news": (
        "a thousand changes in a row, `_MAX_CHAIN`",
        "tests/actors/test_registry.py",
    ),
    "otp/statem_turn.py:_queue": ("postponed events, `max_postponed`", "tests/otp/test_statem_order.py"),
    "host/webhook_schedule.py:": (  # of a tenant its sessions that have a message due
        "MAX_OWED_OF_A_TENANT, at the door",
        "tests/host/test_webhooks.py",
    ),
    "host/webhook_schedule.py:lane": ("MAX_OWED_OF_A_TENANT, at the door", "tests/host/test_webhooks.py"),
    "cli/terminal/live_view.py:_lines": (
        "MAX_HELD characters; beyond them the oldest lines go, and it is said how many",
        "tests/cli/terminal/test_held_errors.py",
    ),
    "gateway/event_hub.py:pending": (
        "what a subscription gives that was just entered",
        "tests/gateway/test_hub.py",
    ),
    "remote/link.py:_outbox": (
        "one for each subscription, and each command that a caller waits for",
        "tests/remote/test_link.py",
    ),
    "remote/read_position.py:_waiting": ("buffer", "tests/remote/test_decisions.py"),
    "remote/read_position.py:kept": ("a part of `_waiting`", "tests/remote/test_decisions.py"),
    "remote/read_position.py:_snapshots": (
        "one for each `EventsLost` of `_waiting`",
        "tests/remote/test_link.py",
    ),
    "runtime/ended_sessions.py:_due": ("MAX_HANDLES", "tests/runtime/test_last_words.py"),
    "runtime/journal_inspection.py:kept": ("the limit of a page", "tests/gateway/test_past_routes.py"),
    "runtime/session_reports.py:parked": ("MAX_PARKED", "tests/runtime/test_session_reports.py"),
    "runtime/store_writer.py:_steps": (
        "one for each record of a session that is not durable; while the store takes none nothing is admitted, and no stream read",
        "tests/runtime/test_kept_sessions.py",
    ),
    "runtime/store_writer.py:_ephemeral": ("MAX_EPHEMERAL_BYTES", "tests/runtime/test_outbox.py"),
    "runtime/store_writer.py:_again": ("MAX_BATCH", "tests/runtime/test_store_writer.py"),
    "runtime/store_writer.py:_calls": (
        "starts, ends and rests of sessions, and a beat; those that wait give up with the patience",
        "tests/runtime/test_store_writer.py",
    ),
    "runtime/session_reports.py:channel": (
        "buffer",
        "tests/runtime/test_session_reports.py",
    ),
    "runtime/event_subscription.py:_NONE": (
        "holds nothing, and is never written to",
        "tests/runtime/test_subscriptions.py",
    ),
    "runtime/event_subscription.py:_replay": ("event_buffer_size", "tests/runtime/test_subscriptions.py"),
    "runtime/event_subscription.py:_buffer": ("buffer", "tests/runtime/test_subscriptions.py"),
    "runtime/event_subscription.py:_snapshots": (
        "one for each `EventsLost` of `_replay` and `_buffer`",
        "tests/runtime/test_readers_come_back.py",
    ),
    "runtime/event_subscription.py:kept": ("a part of `_buffer`", "tests/runtime/test_subscriptions.py"),
    "sandboxes/protected_mounts.py:waiting": ("_MAX_ENTRIES_LOOKED_AT", "tests/sandboxes/test_attacks.py"),
}
"""Each queue of the shell: what bounds it, and where a test meets the bound."""


def queues_in(source: str) -> list[str]:
    """The names that a queue is given in some source; an empty one where it is given none."""
    # Most have none, and to look through all of them takes seconds.
    if not any(maker in source for maker in MAKERS):
        return []
    found = []
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes_queue(value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append(target.attr if isinstance(target, ast.Attribute) else ast.unparse(target))
    made = sum(map(_makes_queue, nodes))
    return [*found, *[""] * (made - len(found))]


def _makes_queue(node: object) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return called in MAKERS


def test_the_search_sees_queues():
    """With an annotation, without one, of a module, and one that has no name."""
    source = "a = deque()\nself._b: deque[int] = deque()\nc, d = trio.open_memory_channel(1)\nf(deque())"
    assert queues_in(source) == ["a", "_b", "(c, d)", ""]


@pytest.mark.at(86)
def test_every_queue_has_a_bound_and_a_test():
    """A queue that nobody thought about is not in the table, and one that is gone is not kept there."""
    found = {
        f"{file.relative_to(PACKAGE)}:{name}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for name in queues_in(file.read_text(encoding="utf-8"))
    }
    assert found == set(QUEUES)
    assert all((ROOT / test).exists() for _, test in QUEUES.values())


@pytest.mark.at(86)
def test_what_waits_for_a_session_has_a_limit_and_is_refused_beyond_it():
    """Prompts, steers, callers who wait for a reply or for the end: one more hears that it is full, and the rest goes on."""
    session_id = SessionId("s")
    config = SessionConfig(
        session_id=session_id,
        path=(session_id,),
        model=ModelFacts(model="scripted:model"),
        max_prompt_queue=3,
        max_steering_queue=2,
    )
    prompts = [
        Prompt(at_ms=1, signal_id=SignalId(f"p{n}"), ref=PromptRef(f"p{n}"), content=(Text(text="go"),))
        for n in range(6)
    ]
    steers = [Steer(at_ms=1, signal_id=SignalId(f"s{n}"), ref=SteerRef(f"s{n}"), text="go") for n in range(4)]
    callers = [ReplyQuery(at_ms=1, signal_id=SignalId(f"q{n}")) for n in range(MAX_ASKERS + 2)]
    state, refused = new_session(config, Toolbox()), Counter[type[Exception]]()
    for signal in (*prompts, *steers, *callers):
        state, effects = step(state, signal)
        refused.update(type(effect.error) for effect in effects if isinstance(effect, Refuse))
    assert refused == {PromptQueueFull: 2, SteeringQueueFull: 2, MailboxFull: 2}
    assert (len(state.data.queue), len(state.data.steers)) == (3, 2)
    assert state.data.cycle is not None
    assert len(state.data.cycle.askers) == MAX_ASKERS


@pytest.mark.at(90)
def test_nothing_but_its_actor_writes_a_session():
    """One file of the shell steps a session and keeps what comes out; another one looks ahead, and throws it away.

    `actors` knows no session: what it steps are supervisors.
    """
    shell = [
        file
        for file in PACKAGE.rglob("*.py")
        if file.parts[len(PACKAGE.parts)] not in {"core", "testing", "actors"}
    ]
    sources = {str(file.relative_to(PACKAGE)): file.read_text(encoding="utf-8") for file in shell}
    steps = {
        name for name, source in sources.items() if _takes(source, "agentrail.core.session.machine", "step")
    }
    assert steps == {"runtime/session_actor.py", "runtime/assembly.py"}
    writers = {
        name for name, source in sources.items() if re.search(r"\.state(, \w+)? = .*step(_stored)?\b", source)
    }
    assert writers == {"runtime/session_actor.py"}


def _takes(source: str, module: str, name: str) -> bool:
    return module in source and any(
        isinstance(node, ast.ImportFrom)
        and node.module == module
        and any(one.name == name for one in node.names)
        for node in ast.walk(ast.parse(source))
    )
