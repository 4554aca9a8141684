"""Translations of third-party wire protocols. Pure.

A translation folds a session's events into frames, and maps a client's message to operations. It uses no
connection, no clock and no protocol library. `gateway/protocols` writes the frames and applies the operations.
A protocol adds no second way in: it knows nothing of access checks, so it cannot bypass them.

To add a wire, write two modules:

- Here, one with its frames and its client's messages. A `Bridge` of `response_state` needs a single function, which
  returns the frames of a change from `response_changes`. A decision on a client's message returns arguments of
  operations, or raises the `WireRefused` of `decisions`. `ai_ui` and `ai_ui_messages` are the example.
- In `gateway/protocols`, one with its routes. An `SseWire` of `response_stream` names the bridge and whether a
  disconnect aborts the cycle, `wire_calls` finds sessions, applies decisions and returns responses to stream, and
  `PROTOCOLS` of `gateway.app` lists the routes. `CallRoute.encode_error` gives errors the shape of the protocol,
  see `error_shapes`.

The wire must not open an id again, hold text back, or write a terminal frame on its own. `ResponseEnd` comes exactly
once in every stream.
"""
