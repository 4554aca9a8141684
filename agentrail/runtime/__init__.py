"""Sessions of an agent: Trio actors that run the pure core.

`session_actor` reads signals and steps the core, `interpreter` carries out its effects through ports, and `supervisor` starts,
resumes and stops sessions. `session_handle` is the `Session` that callers hold.
"""
