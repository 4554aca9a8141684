"""Sessions on a server, over its WebSocket, with the methods, results and exceptions of a local session.

`async with agentrail.connect("https://agents.example", token, agent_id="desk") as session:` returns one.

A lost connection is reopened. Each subscription resumes after its last event, and each unanswered command is sent again under
the same name. `frame_codec`, `error_codes`, `read_position` and `command_results` are pure. `link` and `dialer` do the I/O.
`remote_session`, `remote_subscription` and `remote_cycle` are the objects that callers use. The package must not import the gateway: both share
`agentrail.wire`.
"""
