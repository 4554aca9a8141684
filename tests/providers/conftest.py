"""What the tests of the providers share: the peers that are not ours."""

from tests.peers import aimock, litellm

__all__ = ["aimock", "litellm"]
