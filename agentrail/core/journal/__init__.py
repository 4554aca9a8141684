"""The journal of a session: recording of signals, the chain of records, and their fold. Pure, without a store."""
