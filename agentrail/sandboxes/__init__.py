"""Sandboxes: where file tools read and where commands run.

- `agentrail.abc.Sandbox` is the port: expected failures are a `Refusal`, exceptions are bugs or cancellation.
- `local.py` is a directory of this machine. Its files are confined to that directory; its commands are not yet
  confined by anything: they run with the rights of the user.

The smallest example:

    >>> import tempfile, trio
    >>> from agentrail.sandboxes.local import LocalSandbox
    >>> with tempfile.TemporaryDirectory() as root:
    ...     trio.run(LocalSandbox(root).read_text, "../secret").code
    'invalid_path'
"""
