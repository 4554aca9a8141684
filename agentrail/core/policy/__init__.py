"""The decision rules of a session, each a function of values: when to retry, compact or stop, and how much to spend."""
