"""Hook events from JSON, for people who write one down to see what a stack says to it. Nothing is journaled in this form.

{"hook": "BeforeTool", "name": "shell", "arguments": {"command": "ls"}, "call_id": "c1"}
"""

from typing import Final

import msgspec

from agentrail.core.codec import TAGS
from agentrail.core.hooks import HOOKS, Lifecycle
from agentrail.core.wire_form import Forms, one_of
from agentrail.errors import CodecError

_forms: Final = Forms({**TAGS, **{hook: ("hook", hook.__name__) for hook in HOOKS}}, module=__name__)
_FORM_OF_TWIN: Final = {form.twin: form for form in (_forms.form_of(hook) for hook in HOOKS)}
_hooks: Final = msgspec.json.Decoder(one_of(_FORM_OF_TWIN))


def decode_hook_event(text: bytes | str) -> Lifecycle:
    """Read one of the fourteen hook events.

    Args:
        text: One JSON object; `hook` is the name of its class, then come its fields. Messages are as in events.

    Raises:
        CodecError: Your move: this is no JSON, or no hook event.
    """
    try:
        twin: msgspec.Struct = _hooks.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        known = ", ".join(hook.__name__ for hook in HOOKS)
        message = f"no hook event: {error}; expected an object whose `hook` is one of {known}"
        raise CodecError(message, path="$") from error
    event: Lifecycle = _FORM_OF_TWIN[type(twin)].read(twin)
    return event
