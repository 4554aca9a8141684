"""Events emitted by plugins and tools. Their actions are in `pipeline.py`."""

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError

from collections.abc import Mapping
from typing import Any, Final

from agentrail.events import Event, PluginEvent
from agentrail.events.plugin_events import Announcement
from agentrail.frozen import not_json
from agentrail.messages import JsonObject

NO_USER_DATA: Final = "_no_user_data"


def emitted_event(said: Any, user_data: JsonObject) -> Event:
    """Return the event that a plugin emits: from a name and a payload, or one of the kinds that plugins may make."""
    return said if isinstance(said, Announcement) else plugin_event(said[0], said[1], user_data)


def plugin_event(name: str, payload: Any, user_data: JsonObject) -> PluginEvent:
    """Return a `PluginEvent`. A payload that is a mapping gets `user_data`.

    One that has a key of that name keeps its own, and one with the key `_no_user_data` gets none. That key is
    removed.
    """
    if isinstance(payload, Mapping):
        said = dict(payload)
        if said.pop(NO_USER_DATA, said) is said and "user_data" not in said:
            said["user_data"] = _sayable(user_data)
        payload = said
    return PluginEvent(name=name, payload=payload)


def _sayable(value: Any) -> Any:
    """Copy application data for an event. A value that is not JSON, such as a secret, is replaced by its `str()`."""
    match value:
        case Mapping():
            return {str(name): _sayable(item) for name, item in value.items()}
        case list() | tuple():
            return [_sayable(item) for item in value]
        case _:
            return value if not_json(value) is None else str(value)
