"""Logins to MCP servers on disk: one file per server address and principal, which only its owner can read."""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from agentrail import outside
from agentrail.file_systems import read_regular
from agentrail.private_paths import keep_private, write_private
from agentrail.structs import converter_of

LOGIN_DIRECTORY: Final = "mcp-logins"
"""Directory of the files, in the data directory."""

MAX_LOGIN_BYTES: Final = 1 << 20


@frozen(kw_only=True)
class Login:
    """A login, with all that a later refresh needs.

    Attributes:
        expires_at: Unix time at which the access token expires. None: unknown.
        client: The registration of this client. None for a client of the configuration.
        resource: Metadata of the MCP server, as discovered.
        wanted_scope: Scopes that the server demanded in addition to the granted ones.
    """

    tokens: Mapping[str, Any]
    expires_at: float | None = None
    client: Mapping[str, Any] | None = None
    authorization_server: Mapping[str, Any] | None = None
    resource: Mapping[str, Any] | None = None
    wanted_scope: str | None = None

    @property
    def access_token(self) -> str:
        return str(self.tokens.get("access_token", ""))

    @property
    def can_refresh(self) -> bool:
        return bool(self.tokens.get("refresh_token"))

    def has_expired(self) -> bool:
        return self.expires_at is not None and outside.wall() >= self.expires_at


_TO_LOGIN: Final = converter_of(Login)


class LoginFile:
    """The file of one server and principal. Its methods block.

    Args:
        directory: Created with the first login, for its owner alone.
        url: Address of the server.
        owner: The principal. Empty for the user of this machine's account.
    """

    def __init__(self, directory: Path, url: str, owner: str = "") -> None:
        name = hashlib.sha256(f"{url}\n{owner}".encode()).hexdigest()[:32]
        self.path: Final = directory / f"{name}.json"
        keep_private(directory)

    def read(self) -> Login | None:
        """Return the login. None if there is none, or the file is damaged."""
        try:
            return _TO_LOGIN(json.loads(read_regular(self.path, MAX_LOGIN_BYTES)))
        except (OSError, ValueError, RecursionError):
            return None

    def write(self, login: Login) -> None:
        """Replace the login in one step.

        Raises:
            OSError: It cannot be written, or is too large to be read again.
        """
        data = json.dumps(asdict(login)).encode()
        if len(data) > MAX_LOGIN_BYTES:
            message = f"the login has more than {MAX_LOGIN_BYTES >> 20} MiB"
            raise OSError(errno.EFBIG, message, str(self.path))
        write_private(self.path, data)

    def delete(self) -> bool:
        """Delete the login. Return whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def try_lock(self) -> int | None:
        """Take the lock between processes. Return its descriptor, whose closing releases it, or None while another one has it.

        Raises:
            OSError: The directory cannot be written.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Never deleted: with a second lock file, two processes could refresh at once.
        lock = os.open(
            self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        return lock
