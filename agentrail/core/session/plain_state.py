"""The state of a session as plain data for inspection: the output of `state_codec`, under familiar names. Pure."""

from typing import Any, Final

import msgspec

from agentrail.core.session.state import SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.core.wire.codec import SIGNAL_KINDS

_TOLD_OTHERWISE: Final = frozenset({"history", "stack", "plugin_states", "tools", "config", "updates"})


def plain_state(state: SessionState) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(encode_session(state))
    whole = document["session_state"]
    data: dict[str, Any] = whole["data"]
    names = [tool["name"] for tool in document["tools"]]
    versions = {plugin["name"]: plugin["version"] for plugin in document["plugins"]}
    plain = {
        "phase": whole["phase"],
        "suspended": state.suspended,
        "ended": whole["ended"],
        "messages": data["history"],
        "plugins": {
            name: {"version": versions.get(name), "state": kept}
            for name, kept in data["plugin_states"].items()
        },
        "tools": [names[number] for number in data["tools"]["tools"]],
        "config": _config_of(data["config"], names),
        "updates": [update["plugin"] for update in data["updates"]],
        "postponed": [SIGNAL_KINDS[type(signal)] for signal in state.postponed],
    }
    rest = {name: item for name, item in data.items() if name not in _TOLD_OTHERWISE}
    for call in (*rest["batch"], *rest["survivors"]):
        if call["spec"] is not None:  # of a tool that exists
            call["spec"] = names[call["spec"]]
    return plain | rest


def _config_of(config: dict[str, Any], names: list[str]) -> dict[str, Any]:
    told = {name: item for name, item in config.items() if name != "user_data"}
    for agent in told["agents"]:
        if agent["tools"] is not None:
            agent["tools"] = [names[number] for number in agent["tools"]["tools"]]
    return told
