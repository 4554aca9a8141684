"""The session machine: its state, its transition table, and one module of signal handlers for each subject."""
