"""What waits for a session has a limit, and a stated policy for what happens at it; `make lint-repository` has the list of queues."""

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
