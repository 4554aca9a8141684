"""URLs of shared stores: what is refused before anything is opened, and that no message has a password."""

import pytest
from hypothesis import given, strategies as st

from agentrail.errors import OptionError
from agentrail.stores.store_urls import faults_of_url, has_password, shown_store

PASSWORD = "kingfisher"  # noqa: S105 - a canary


@pytest.mark.machine(22)
@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgres://u:{PASSWORD}@h/x\n", "line break"),
        (f"postgres://u:{PASSWORD} @h/x", "space"),
        (f"postgres://u:{PASSWORD}@@h/x", "%40"),
        (f"postgres://u:{PASSWORD}/1@h/x", "cannot be told apart"),
        (f"postgres://u:{PASSWORD}@h:port/x", "cannot be told apart"),
        (f"postgres://h/x?password={PASSWORD}&sslmode", "has no value"),
        (f"postgres://u:{PASSWORD}@h/x, postgres://u:{PASSWORD}@g/x", "shards are not built"),
        (f"mysql://u:{PASSWORD}@h/x", "'postgres://USER@HOST/DATABASE'"),
    ],
)
def test_a_url_with_a_fault_is_refused_without_its_password(url, said):
    """A url with a fault is refused without its password."""
    (fault,) = faults_of_url(url)
    assert said in fault
    assert PASSWORD not in fault


@pytest.mark.parametrize("url", ["postgres://u@db..example/x", "postgres:///x?host=h,db..example"])
def test_a_host_that_is_not_a_name_is_refused(url):
    """Before the resolver raises an error that no store expects. The directory of a socket is no name."""
    connections = pytest.importorskip("agentrail.stores.postgres_connections")
    with pytest.raises(OptionError, match="is not one of PostgreSQL: expected postgres://"):
        connections.Connector(url, print)
    assert connections.Connector("postgres:///x?host=/run/../postgres", print).place


def test_what_can_be_opened_has_no_fault():
    """What can be opened has no fault."""
    for url in (
        "postgres://h/x",
        f"postgresql://u:{PASSWORD}@[::1]:5432/x?sslmode=verify-full",
        "postgres:///x",
    ):
        assert faults_of_url(url) == []


@pytest.mark.machine(22)
@given(st.text(st.characters(codec="ascii"), max_size=8), st.sampled_from(["", ":5432", "/x", "/x?a=b"]))
def test_a_shown_url_has_no_password(text, rest):
    """Whatever stands around it, encoded or not."""
    url = f"postgres://ada:{text}{PASSWORD}{text}@host{rest}"
    assert PASSWORD not in shown_store(url)
    assert PASSWORD not in "".join(faults_of_url(url))
    assert has_password(url) or "?" in text
