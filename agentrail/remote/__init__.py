"""Sessions on a server, over its WebSocket, with the methods, results and exceptions of a local session.

`async with agentrail.connect("https://agents.example", token, agent_id="desk") as session:` returns one.

A lost connection is reopened. Each subscription resumes after its last event, and each unanswered command is sent again under
the same name. `frames`, `faults`, `reading` and `replies` are pure. `link` and `dialing` do the I/O. `session`,
`subscription` and `cycle` are the objects that callers use. The package must not import the gateway: both share
`agentrail.wire`.
"""
