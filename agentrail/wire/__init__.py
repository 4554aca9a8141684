"""What a gateway and a remote client both write and read: the forms of values, and the frames that a server sends over a WebSocket.

Pure: values in, JSON out, and the other way round. Neither side decides anything here, and neither knows the other: `agentrail.gateway`
and `agentrail.remote` stand side by side, and this is all that they share.
"""
