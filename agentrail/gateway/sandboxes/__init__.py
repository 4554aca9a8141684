"""A local sandbox served over HTTP: run by `agentrail sandbox serve`, used by `agentrail.sandboxes.remote`.

- `leases.py` holds the state of each client: its workspace, and the status of its operations.
- `lease_operations.py` runs one operation on a sandbox, `process_sockets.py` connects a process to a WebSocket,
  `lease_directories.py` creates and removes the directory of a lease.
- `app.py` is the ASGI application: it knows tokens and HTTP paths, but no file paths.
"""
