"""Routes of third-party protocols, one module per protocol, over the translations of `agentrail.protocols`.

A call passes the usual checks (`path_endpoint`) and goes to the host like any other, so no protocol is a second way
in.
"""
