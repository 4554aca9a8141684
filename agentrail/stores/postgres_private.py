"""A PostgreSQL server of one process, over a directory of its own: for one machine, and for tests.

It ends with its process, even if that is killed. Only this user reaches its socket. Its loopback port asks for a password. The shared store is not opened here.
"""

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import trio

from agentrail import outside
from agentrail.errors import OptionError, StoreInUse, StoreUnavailable
from agentrail.stores.sqlite_files import WriteLock, make_data_directory

MIN_VERSION: Final = 15
"""Oldest supported major version of PostgreSQL."""

ROLE: Final = "agentrail"
"""Owner of a private cluster."""

POSTGRES_START_SECONDS: Final = 60.0
"""Time limit for a start. Recovery after a power failure is part of it."""

_PORTS: Final = range(20_000, 32_000)
_STOPS: Final = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
_OLD_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
_MAX_SOCKET_BYTES: Final = 100  # unix(7) allows 108 with the end, and the name of the file takes some
_INSTALLED: Final = Path("/usr/lib/postgresql")
_MACHINE: Final = Path("/etc/machine-id")
_HOW_TO_INSTALL: Final = "install it with your package manager (Debian: apt-get install postgresql)"


class Binaries(NamedTuple):
    """Programs of one installed PostgreSQL: their directory, and its major version."""

    directory: Path
    version: int


def find_binaries(environ: Mapping[str, str], version: int | None = None) -> Binaries:
    """Find `initdb` and `pg_ctl`: where `pg_config` says, in `/usr/lib/postgresql`, then on `PATH`. Blocks.

    Args:
        environ: Environment, for `PATH`.
        version: Required major version, None for the first that is supported.

    Raises:
        OptionError: Your move: none is installed, or none that fits.
    """
    found: list[Binaries] = []
    for directory in _candidates(environ):
        if all(os.access(directory / name, os.X_OK) for name in ("initdb", "pg_ctl", "postgres")):
            said = _output(directory / "postgres", "--version", environ)
            number = re.search(r"\) (\d+)", said)
            found += [Binaries(directory, int(number[1]))] if number else []
    fitting = [
        one for one in found if (one.version >= MIN_VERSION if version is None else one.version == version)
    ]
    if fitting:
        return fitting[0]
    wanted = f"PostgreSQL {version}" if version else f"PostgreSQL {MIN_VERSION} or newer"
    seen = ", ".join(f"{one.version} in {one.directory}" for one in found) or "no initdb and pg_ctl"
    raise OptionError([f"a private cluster needs {wanted}, but found {seen}: {_HOW_TO_INSTALL}"])


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    path = environ.get("PATH", os.defpath)
    config = shutil.which("pg_config", path=path)
    named = [Path(_output(Path(config), "--bindir", environ))] if config else []
    installed = sorted(_INSTALLED.glob("*/bin"), key=lambda one: (len(one.parent.name), one.parent.name))
    program = shutil.which("initdb", path=path)
    return [*named, *reversed(installed), *([Path(program).resolve().parent] if program else [])]


def _output(program: Path, argument: str, environ: Mapping[str, str]) -> str:
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = outside.processes().start([program, argument], **options, env=_environment(environ))
    return process.communicate()[0].decode(errors="replace").strip()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without libpq's settings, which name other servers. Messages are in English."""
    return {name: value for name, value in environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


class PrivatePostgres:
    """One server. Call `prepare`, `start`, `is_ready` until it is true, and `stop`, which is safe at any time.

    Attributes:
        directory: Its directory, with the data, the socket, the password and the log.
        port: Loopback port, which also names the socket.
    """

    def __init__(
        self,
        directory: Path,
        environ: Mapping[str, str],
        *,
        run_as: tuple[int, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a server, without doing anything.

        Args:
            directory: Directory, which is created. Its parent must exist for another user.
            environ: Environment of this process.
            run_as: User and group that run it, if this process belongs to root. For tests.
            settings: Settings of PostgreSQL, by name.
        """
        self.directory = directory
        self.port: int = 0
        self._environ = environ
        self._run_as = run_as
        self._settings = settings or {}
        self._data = directory / "data"
        self._log = directory / "postgres.log"
        self._lock: WriteLock | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._binaries = Binaries(directory, 0)

    def __repr__(self) -> str:
        return f"<PrivatePostgres {os.fspath(self.directory)!r} port={self.port}>"

    def url_of(self, database: str = "postgres") -> str:
        """Return a URL over the socket. It contains no password."""
        return f"postgresql://{ROLE}@/{quote(database, safe='')}?host={quote(os.fspath(self.directory), safe='')}&port={self.port}"

    def port_url_of(self, database: str = "postgres") -> str:
        """Return a URL over the loopback port, with the password."""
        password = (self.directory / "password").read_text(encoding="ascii").strip()
        return f"postgresql://{ROLE}:{password}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    @property
    def pid(self) -> int:
        """Process id of the server, 0 unless it runs."""
        return 0 if self._process is None or self.exit_code is not None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code of a started server that has ended, negative for a signal."""
        return None if self._process is None else self._process.poll()

    def prepare(self) -> None:
        """Lock the directory, and create the cluster unless it exists. Takes seconds. Blocks.

        Raises:
            OptionError: Your move: run by root, nothing installed, or a directory that does not fit.
            StoreInUse: Your move: another process runs it.
            StoreUnavailable: The directory cannot be written, or `initdb` failed.
        """
        if self._run_as is None and os.geteuid() == 0:
            fault = "PostgreSQL refuses to run as root: start this as an ordinary user, or name a server, as in --store postgres://HOST/DATABASE"
            raise OptionError([fault])
        if len(os.fsencode(self.directory)) > _MAX_SOCKET_BYTES:
            fault = f"{os.fspath(self.directory)!r} is longer than the {_MAX_SOCKET_BYTES} bytes that a socket's path may take: name a shorter --data-dir"
            raise OptionError([fault])
        make_data_directory(self.directory.parent)
        make_data_directory(self.directory)
        self.directory.chmod(0o700)
        try:
            self._lock = WriteLock(self.directory / "postgres", since_ms=int(outside.wall() * 1000))
        except StoreInUse as error:
            message = f"the private PostgreSQL in {os.fspath(self.directory)!r} is run by process {error.pid}: stop that one first, or name another --data-dir"
            raise StoreInUse(message, pid=error.pid) from None
        made_with = self._data / "PG_VERSION"
        if made_with.exists():
            self._check_machine()
            self._binaries = self._binaries_for(int(made_with.read_text(encoding="ascii")))
        else:
            self._binaries = find_binaries(self._environ)
            self._initialise()
        self.port = self.port or free_ports(1)[0]

    def _binaries_for(self, version: int) -> Binaries:
        try:
            return find_binaries(self._environ, version)
        except OptionError as error:
            way_out = "a newer one reads it after pg_upgrade, or start with another --data-dir"
            fault = f"{os.fspath(self._data)!r} was created by PostgreSQL {version}"
            raise OptionError([f"{fault}; {error}; {way_out}"]) from None

    def _check_machine(self) -> None:
        made_on, here = _text_of(self.directory / "machine"), _text_of(_MACHINE)
        if made_on and here and made_on != here:
            fault = f"{os.fspath(self.directory)!r} was copied from another machine (made on {made_on:.8}…, this is {here:.8}…)"
            way_out = "copy databases with pg_dump, or remove the file 'machine' in it if the other machine no longer uses it"
            raise OptionError([f"{fault}: {way_out}"])

    def _initialise(self) -> None:
        password = self.directory / "password"
        self._write(password, outside.ids(16))
        self._write(self.directory / "machine", _text_of(_MACHINE))
        self._own(self.directory)
        # Renamed once complete: a killed initdb leaves no half of a cluster.
        new = self.directory / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        options = [f"--pgdata={new}", f"--username={ROLE}", f"--pwfile={password}"]
        options += ["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256"]
        process = self._start([self._binaries.directory / "initdb", *options])
        if process.wait() != 0:
            raise self._unavailable()
        new.rename(self._data)

    @property
    def has_old_server(self) -> bool:
        """Whether the server of a killed process still runs over this directory. It ends within seconds."""
        first, _, _ = _text_of(self._data / "postmaster.pid").partition("\n")
        return first.isdecimal() and not self.pid and Path("/proc", first).exists()

    def start(self) -> None:
        """Start the prepared server. It ends with the calling thread, so call this from the event loop's."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": os.fspath(self.directory),
            "unix_socket_permissions": "0700",
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._process = self._start([self._binaries.directory / "postgres", "-D", self._data, *options])

    def is_ready(self) -> bool:
        """Return whether it accepts connections.

        Raises:
            StoreUnavailable: It has ended. The message quotes its log.
        """
        if not self.pid:
            raise self._unavailable()
        lines = _text_of(self._data / "postmaster.pid").splitlines()
        return lines[:1] == [str(self.pid)] and lines[-1].strip() == "ready"

    def stop(self) -> None:
        """End the server: politely, then at once. Release the directory. Can be called repeatedly. Blocks."""
        for number, seconds in _STOPS:
            if self._process is None or self._process.poll() is not None:
                break
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        if self._lock is not None:
            self._lock.release()

    def _start(self, command: Sequence[str | os.PathLike[str]]) -> "subprocess.Popen[bytes]":
        setpriv = shutil.which("setpriv", path=self._environ.get("PATH", os.defpath))
        prefix = [] if setpriv is None else [setpriv, "--pdeathsig=INT"]
        if self._run_as is not None:
            user, group = self._run_as
            prefix += [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # In a session of its own, so that Ctrl-C reaches only this process, which stops the server when it is no longer used.
            return outside.processes().start(
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(self._environ),
                cwd=self.directory,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def _write(self, path: Path, text: str) -> None:
        path.unlink(missing_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as opened:
            opened.write(text)
        self._own(path)

    def _own(self, path: Path) -> None:
        if self._run_as is not None:
            os.chown(path, *self._run_as)

    def _unavailable(self) -> StoreUnavailable:
        lines = _text_of(self._log).splitlines()[-3:]
        return StoreUnavailable(
            f"PostgreSQL does not start: {' / '.join(lines)}; see {os.fspath(self._log)!r}"
        )


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def free_ports(count: int) -> tuple[int, ...]:
    """Return loopback ports that nothing listens on now, below those that Linux and macOS give to outgoing connections."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            port = _PORTS[int(outside.jitter() * len(_PORTS))]
            try:
                one.bind(("127.0.0.1", port))
                found.append(port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    return tuple(found)


@asynccontextmanager
async def open_private_postgres(
    directory: Path, environ: Mapping[str, str], *, settings: Mapping[str, str] | None = None
) -> AsyncIterator[PrivatePostgres]:
    """Start a private server for a block, and stop it afterwards, whatever happened in the block.

    Raises:
        OptionError, StoreInUse, StoreUnavailable: Same as in `PrivatePostgres`.

    Cancellation: A checkpoint. A running `initdb` ends first, and the server is stopped.
    """
    server = PrivatePostgres(directory, environ, settings=settings)
    try:
        await outside.offload(server.prepare)
        with trio.move_on_after(_OLD_SECONDS):
            while server.has_old_server:  # noqa: ASYNC110 - another process, which sets no event
                await trio.sleep(_LOOK_SECONDS)
        server.start()
        with trio.move_on_after(POSTGRES_START_SECONDS) as starting:
            while not server.is_ready():  # noqa: ASYNC110 - as above
                await trio.sleep(_LOOK_SECONDS)
        if starting.cancelled_caught:
            message = f"PostgreSQL in {os.fspath(directory)!r} is not ready after {POSTGRES_START_SECONDS:g} s; see its postgres.log"
            raise StoreUnavailable(message)
        yield server
    finally:
        with trio.CancelScope(shield=True):
            await outside.offload(server.stop)
