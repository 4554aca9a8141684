"""A sandbox at another place, over HTTP: the client, which is an ordinary `Sandbox`, and the protocol of both sides.

- `operations.py` is the protocol, `multipart.py` the encoding of several files. `agentrail.wire.sandbox_address` parses addresses.
- `connection.py` has one exchange, or an interactive process. `client.py` is `RemoteSandbox`. `container.py` starts a server in a container.
- The server is in `agentrail.gateway.sandboxes`. `agentrail sandbox serve` runs it.
"""
