"""Hypothesis strategies for what a model does with other agents."""

from collections.abc import Mapping

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.values.toolbox import read_call
from agentrail.messages import ToolCall
from agentrail.testing.strategies import CALL_IDS


def agent_calls() -> SearchStrategy[ToolCall]:
    """Calls of the tools for agents, as a model makes them: good ones, and of agents and names that are not there."""
    names = st.sampled_from(("agent-1", "agent-1", "agent-2", "anna", "unknown", "a b"))
    texts = st.sampled_from(("Look.", "Look.", "Write.", " "))
    arguments: Mapping[str, SearchStrategy[object]] = {
        "spawn_agent": st.fixed_dictionaries(
            {"agent": st.sampled_from(("scout", "scout", "waker", "wizard")), "task": texts},
            optional={"name": names},
        ),
        "send_input": st.fixed_dictionaries({"name": names, "text": texts}),
        "wait_agents": st.fixed_dictionaries(
            {},
            optional={
                "names": st.lists(names, max_size=2),
                "match": st.sampled_from(("all", "any")),
                "until": st.sampled_from(("idle", "closed")),
                "timeout_seconds": st.sampled_from((1, 0, "soon")),
            },
        ),
        "handoff_to": st.fixed_dictionaries(
            {"agent": st.sampled_from(("poet", "clerk", "wizard"))}, optional={"note": texts}
        ),
        "close_agent": st.fixed_dictionaries({"name": names}, optional={"now": st.booleans()}),
    }
    made: list[SearchStrategy[ToolCall]] = [
        st.builds(read_call, st.sampled_from(CALL_IDS), st.just(name), given.map(_json))
        for name, given in arguments.items()
    ]
    return st.one_of(made[0], *made)


def spawning_calls() -> SearchStrategy[ToolCall]:
    """Calls that start an agent, if one more may be: most of what the others say is about one that is there."""
    said = ('{"agent": "scout", "task": "Look."}', '{"agent": "waker", "task": "Look."}')
    return st.builds(read_call, st.sampled_from(CALL_IDS), st.just("spawn_agent"), st.sampled_from(said))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
