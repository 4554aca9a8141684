"""The rules that a session decides by, each a function of values: when to retry, compact, stop; what may be spent."""
