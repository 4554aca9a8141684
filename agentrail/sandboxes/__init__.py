"""Sandboxes: where file tools read and write, and where commands run.

- `agentrail.abc.Sandbox` is the port: expected failures are the `error` of a result, exceptions are bugs or cancellation.
- `local.py` is a directory of this machine, `memory.py` a dictionary.
- `agentrail.testing.check_sandbox` tests any of them, and yours, against the port.

The smallest example:

    >>> import trio
    >>> from agentrail.sandboxes.memory import MemorySandbox
    >>> trio.run(MemorySandbox({"a.txt": "words"}).read, "../secret").error.code
    'invalid_path'
"""
