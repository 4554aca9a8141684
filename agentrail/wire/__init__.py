"""The wire format shared by the gateway and the remote client: JSON forms of values, and the frames a server sends over a WebSocket.

Pure encoding and decoding between values and JSON. `agentrail.gateway` and `agentrail.remote` do not import each other, and share only
this package.
"""
