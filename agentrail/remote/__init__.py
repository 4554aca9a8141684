"""Sessions on a server, over its WebSocket: the same methods, results and exceptions as those of a session in this process.

`async with agentrail.connect("https://agents.example", token, agent_id="desk") as session:` gives one.

What is lost with a connection comes again: it is opened anew, each subscription goes on behind its last event, and what was not
answered is sent once more under the same name. `backoff`, `frames`, `faults`, `owed` decide and are pure; `link`, `links`, `dialing` carry
out; `session`, `subscription`, `cycle` are what callers hold. Nothing of the gateway may enter: the two share `agentrail.wire`.
"""
