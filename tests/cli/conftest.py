"""What the tests of the command share: the peer that is not ours."""

from tests.peers import aimock

__all__ = ["aimock"]
