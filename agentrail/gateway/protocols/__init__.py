"""Routes of protocols that programs of others speak: one file per protocol, over the bridges of `agentrail.protocols`.

A call comes the way of all calls (`endpoint`), and what it wants goes to the host as any other message does: no protocol is a second way in.
"""
