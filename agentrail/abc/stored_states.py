"""Encoding of stored session states as JSON, for code that stores sessions. Bytes in, bytes out, without I/O."""

from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session.machine import new_session
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.session.state_codec import (
    decode_config,
    decode_session,
    decode_stack,
    decode_toolbox,
    encode_config,
    encode_session,
    encode_stack,
    encode_toolbox,
)
from agentrail.core.values.toolbox import Toolbox

__all__ = (
    "ModelFacts",
    "SessionConfig",
    "SessionState",
    "Toolbox",
    "decode_config",
    "decode_session",
    "decode_stack",
    "decode_toolbox",
    "encode_config",
    "encode_session",
    "encode_stack",
    "encode_toolbox",
    "new_session",
)
