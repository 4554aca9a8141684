"""Translations of third-party wire protocols, one module per protocol. Pure.

A translation folds a session's events into frames, and maps a client's message to actions. It uses no
connection, no clock and no protocol library. `gateway/protocols` writes the frames and carries out the actions.
A protocol adds no second way in: it knows nothing of access checks, so it cannot bypass them.
"""
