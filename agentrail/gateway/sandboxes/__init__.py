"""A local sandbox served over HTTP: run by `agentrail sandbox serve`, used by `agentrail.sandboxes.remote`."""
