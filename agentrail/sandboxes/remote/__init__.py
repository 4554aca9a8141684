"""A sandbox at another place, over HTTP: the client, which is a `Sandbox` like any other, and what both sides say to each other.

- `operations.py` is what is said, `multipart.py` how bytes of several files travel; where a server is says `agentrail.wire.sandbox_address`.
- `connection.py` has one exchange, or a process that is talked to, `client.py` is `RemoteSandbox`, `container.py` starts a server in a container of its own.
- The server stands in `agentrail.gateway.sandboxes`; `agentrail sandbox serve` runs it.
"""
