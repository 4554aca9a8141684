"""A local sandbox served over HTTP: what `agentrail sandbox serve` runs, and `agentrail.sandboxes.remote` asks.

- `leases.py` is what is kept for each client: its workspace, and which of its operations have begun, ended, or may not begin any more.
- `operations.py` carries one operation out on a sandbox, `processes.py` lets a process be talked to; `workspaces.py` makes a directory for a lease and removes it.
- `app.py` is the application, as of ASGI: it knows tokens and paths of HTTP, and no path of a file.
"""
