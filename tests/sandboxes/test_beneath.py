"""Opening beneath a directory: how the way of opening is chosen, and what is tried again."""

import ctypes
import errno
import os

import pytest

from agentrail.sandboxes import safe_open


class OtherKernel:
    """A C library whose system call fails, as an old kernel's does or one that a container has closed."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.calls = 0

    def syscall(self, *_args: object) -> int:
        """Fail."""
        self.calls += 1
        ctypes.set_errno(self.code)
        return -1


@pytest.fixture
def directory(tmp_path):
    """A descriptor of an empty directory."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(("code", "calls"), [(errno.EAGAIN, 4), (errno.EINTR, 4), (errno.ENOENT, 1)])
def test_only_what_may_pass_is_tried_again(directory, monkeypatch, code, calls):
    """EAGAIN says that something was renamed meanwhile; four times, because an attacker may rename for ever."""
    kernel = OtherKernel(code)
    monkeypatch.setattr(safe_open, "_libc", lambda: kernel)
    with pytest.raises(OSError, match=os.strerror(code)) as caught:
        safe_open.open_in_kernel(directory, ("a", "b"), os.O_RDONLY)
    assert caught.value.errno == code
    assert caught.value.filename == "a/b"
    assert kernel.calls == calls
