"""Who may decide, apart from who asks: the scope `decide`, the approvers of a profile, and everyone else."""

from agentrail.gateway.app import ROUTES


def by(name):
    """The headers of a caller."""
    return {"authorization": f"Bearer {name}"}


def test_only_routes_that_decide_are_open_to_deciders():
    """A new route is not among them by accident."""
    found = {
        (route.method, route.path.removeprefix("/sessions/{session_id}")) for route in ROUTES if route.also
    }
    assert found == {
        ("POST", "/approve"),
        ("POST", "/reject"),
        ("POST", "/respond"),
        ("GET", "/approvals/{approval:path}"),
    }
