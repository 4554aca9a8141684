"""Paths as text: the table of what is refused, and where the rest leads."""

from pathlib import PurePosixPath

from hypothesis import given, strategies as st

from agentrail.abc import Refusal
from agentrail.sandboxes.paths import decide_names

ROOTS = (PurePosixPath("/srv/ws"), PurePosixPath("/mnt/real"))


@given(path=st.text(st.sampled_from("a./~\n\0é \\")) | st.text())
def test_no_name_leads_upwards(path):
    """Whatever is taken consists of names that mean themselves."""
    names = decide_names(path, ROOTS)
    if isinstance(names, Refusal):
        assert names.message.isprintable()
        return
    assert all(name not in {"", ".", ".."} and "/" not in name and "\0" not in name for name in names)
