"""Decoding of hook events from JSON, for users who write one to test a stack."""

from typing import Final

import msgspec

from agentrail.core.protocol.hooks import HOOKS, Lifecycle
from agentrail.errors import CodecError
from agentrail.structs import decoder_of

_hooks: Final[msgspec.json.Decoder[Lifecycle]] = decoder_of(Lifecycle)


def decode_hook_event(text: bytes | str) -> Lifecycle:
    try:
        return _hooks.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        known = ", ".join(hook.__name__ for hook in HOOKS)
        message = f"not a hook event: {error}; expected an object whose `hook` is one of {known}"
        raise CodecError(message, path="$") from error
