"""Sessions on a server, over its WebSocket, with the methods, results and exceptions of a local session.

`async with agentrail.connect("https://agents.example", token, agent_id="desk") as session:` returns one.

The package must not import the gateway: both share `agentrail.wire`.
"""
