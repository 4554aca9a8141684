"""`container:IMAGE`: a sandbox server in its own container, started by the local `docker` or `podman`."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Final, TypeAlias

import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc import Secret
from agentrail.errors import OptionError, SandboxError
from agentrail.file_systems import remove_tree
from agentrail.logs import Logger
from agentrail.otp.child_specs import is_number
from agentrail.otp.field_rules import CheckedFields, PathText, checks_arguments
from agentrail.sandboxes.command_runner import KernelLimit
from agentrail.sandboxes.programs import find_program, safe_search_path
from agentrail.sandboxes.remote.client import RemoteSandbox
from agentrail.sandboxes.remote.connection import refuse_connection
from agentrail.sandboxes.remote.operations import SANDBOX_TOKEN_VARIABLE
from agentrail.wire.sandbox_address import CONTAINER, NoAddress, RemoteAddress, image_of

LOGGER: Final = Logger("agentrail.sandboxes")

PROGRAMS: Final = ("docker", "podman")
"""Container programs. The first one found is used."""

START_SECONDS: Final = 120.0
"""Time limit for starting a container, including the download of its image."""

END_SECONDS: Final = 1.5
"""Time limit for a container to end, after which it is removed."""

REMOVE_SECONDS: Final = 10.0

SOCKET_NAME: Final = "sandbox.sock"

_PASSED_ON: Final = frozenset(
    {
        *(
            "HOME",
            "USER",
            "LOGNAME",
            "LANG",
            "TZ",
            "TMPDIR",
            "XDG_RUNTIME_DIR",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
        ),
        *("DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *(
            "DOCKER_HOST",
            "DOCKER_CONTEXT",
            "DOCKER_CONFIG",
            "DOCKER_CERT_PATH",
            "DOCKER_TLS_VERIFY",
            "DOCKER_API_VERSION",
        ),
        *(
            "CONTAINER_HOST",
            "CONTAINER_SSHKEY",
            "CONTAINER_CONNECTION",
            "CONTAINERS_CONF",
            "CONTAINERS_STORAGE_CONF",
        ),
    }
)
_PASSED_ON_PREFIXES: Final = ("LC_",)
_INSIDE: Final = "/run/agentrail"
_MAX_SAID: Final = 300
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]+")


_MIN_CPUS, _MAX_CPUS = 0.01, 1_000_000
_Processors: TypeAlias = Annotated[
    float,
    (lambda value: is_number(value) and _MIN_CPUS <= value <= _MAX_CPUS, "a number from 0.01 to 1,000,000"),
]


@frozen(kw_only=True)
class ContainerLimits(CheckedFields):
    """Resource limits of a container.

    Attributes:
        memory_bytes: Memory of all its processes, without swap.
        cpus: Number of processors, at least 0.01: Docker takes 0 for no limit.
        idle_seconds: Idle time after which it ends.
    """

    memory_bytes: KernelLimit = 1 << 30
    cpus: _Processors = 1.0
    processes: KernelLimit = 512
    idle_seconds: KernelLimit = 1_800


CONTAINER_LIMITS: Final = ContainerLimits()


class ContainerSandbox(RemoteSandbox):
    """A workspace in its own container, started with the first call. It ends when this is closed, or after 30 idle minutes."""

    @checks_arguments
    def __init__(
        self,
        image: str,
        *,
        skills: str | os.PathLike[str] | None = None,
        program: PathText | None = None,
        limits: ContainerLimits = CONTAINER_LIMITS,
        working_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Create the sandbox without starting a container."""
        try:
            self._image = image_of(f"{CONTAINER}{image}")
        except NoAddress as error:
            raise OptionError([f"sandbox is {CONTAINER}{image!r:.200}: {error}"]) from None
        self._skills = None if skills is None else _check_skills(Path(skills).absolute())
        root = Path.cwd() if working_dir is None else Path(working_dir).resolve()
        self._program = _find_program(PROGRAMS if program is None else (program,), root)
        self._variables = decide_variables(os.environ, safe_search_path(root))
        self._limits = limits
        self._name = f"agentrail-{outside.ids(8)}"
        # Short, because the name of a socket is limited to a hundred bytes. Accessible to its owner only, because access to it is
        # access to the sandbox.
        self._directory = Path(tempfile.gettempdir(), self._name)
        self._process: trio.Process | None = None
        self._said: IO[bytes] | None = None
        address = RemoteAddress(
            url="http://sandbox",
            name=f"{CONTAINER}{self._image}",
            socket=str(self._directory / SOCKET_NAME),
        )
        super().__init__(address, token=Secret(outside.ids(32)))

    async def _prepare(self) -> None:
        """Start the container, once, and wait until its server listens.

        Cancellation: It is removed.
        """
        if self._process is not None:
            return
        is_ready, why = False, ""
        try:
            self._directory.mkdir(mode=0o700)
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the sandbox
            self._process = await outside.processes().open(
                decide_command(
                    self._program,
                    self._image,
                    name=self._name,
                    directory=self._directory,
                    skills=self._skills,
                    limits=self._limits,
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._said,
                # By name in the arguments and by value here: every user of the machine can read arguments.
                env={**self._variables, SANDBOX_TOKEN_VARIABLE: self._token.reveal()},
                start_new_session=True,  # a Ctrl-C in our terminal is meant for us
            )
            with trio.move_on_after(START_SECONDS), suppress(trio.ClosedResourceError):  # closed meanwhile
                is_ready = await _reads_line(self._process) and self._gone is None
        except OSError as error:
            raise refuse_connection(self._address, f"{self._program}: {error.strerror}") from None
        finally:
            if not is_ready:
                why = self._words()
                await self._remove()  # noqa: ASYNC102 - shielded and bounded inside
        if not is_ready:
            raise self._gone or refuse_connection(
                self._address, f"the container did not start. {self._program} says: {why}"
            )

    async def aclose(self) -> None:
        """End the container, and remove it if it does not end. Idempotent.

        Cancellation: It is removed nevertheless, shielded, within at most ten seconds.
        """
        try:
            await super().aclose()
            if self._process is not None:
                with trio.move_on_after(END_SECONDS):
                    await self._process.wait()
        finally:
            await self._remove()  # noqa: ASYNC102 - shielded and bounded inside

    async def _remove(self) -> None:
        """Remove all of its parts. Shielded, with a time limit."""
        with trio.CancelScope(shield=True):
            process, self._process = self._process, None
            if process is not None:
                if process.poll() is None:
                    with trio.move_on_after(REMOVE_SECONDS) as scope:
                        await self._force()
                    if scope.cancelled_caught:
                        LOGGER.warning(
                            "container %s could not be removed within %g s", self._name, REMOVE_SECONDS
                        )
                    process.kill()
                if process.stdout is not None:
                    await process.stdout.aclose()
                with trio.move_on_after(1.0):
                    await process.wait()
            if self._said is not None:
                self._said.close()
                self._said = None
            with suppress(OSError):
                await outside.offload(remove_tree, self._directory)

    async def _force(self) -> None:
        try:
            await outside.processes().run(
                [self._program, "rm", "--force", self._name],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._variables,
                check=False,
            )
        except OSError as error:
            LOGGER.warning("container %s could not be removed: %s", self._name, error)

    def _words(self) -> str:
        if self._said is None:
            return "nothing"
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(self._said.tell() - _MAX_SAID, 0))
        words = _UNPRINTABLE.sub(" ", self._said.read(_MAX_SAID).decode("ascii", "replace")).strip()
        return words.rstrip(".") or "nothing"


def decide_command(  # noqa: PLR0913 - the parts of a container
    program: str, image: str, *, name: str, directory: Path, skills: Path | None, limits: ContainerLimits
) -> tuple[str, ...]:
    options = [
        *("--rm", "--init", "--name", name),
        *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
        *("--cpus", f"{limits.cpus:g}", "--pids-limit", str(limits.processes)),
        # As the user who started it: the socket is created inside, and opened here.
        *("--user", f"{os.getuid()}:{os.getgid()}", "--env", SANDBOX_TOKEN_VARIABLE),
        *("--mount", f"type=bind,source={directory},target={_INSIDE}"),
    ]
    if Path(program).name == "podman":  # otherwise that user has another id inside
        options += ["--userns", "keep-id"]
    if skills is not None:
        options += ["--mount", f"type=bind,source={skills},target=/skills,readonly"]
    serving = [
        *("sandbox", "serve", "--socket", f"{_INSIDE}/{SOCKET_NAME}", "--shell-fallback", "unconfined"),
        *("--once", "--idle-seconds", str(limits.idle_seconds)),
    ]
    return (program, "run", *options, "--entrypoint", "agentrail", image, *serving)


def skills_below(working_dir: Path) -> Path | None:
    """Return the skills directory of a project, for its containers. None if there is none."""
    directory = working_dir / ".agentrail" / "skills"
    return directory if directory.is_dir() and not directory.is_symlink() else None


def decide_variables(environ: Mapping[str, str], search_path: str) -> Mapping[str, str]:
    """Return the variables of the container program: those it needs to find its server, without our keys."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    return {**kept, "PATH": search_path}


def _find_program(names: Sequence[str], root: Path) -> str:
    for name in names:
        found = name if os.path.isabs(name) else find_program(name, root)  # noqa: PTH117 - of a text
        if found is not None:
            return found
    message = f"none of {' and '.join(names)} is installed outside {str(root)!r}, and one of them is needed to start containers: install one, put its absolute directory on PATH, or use another sandbox"
    raise SandboxError(message)


def _check_skills(directory: Path) -> Path:
    # A comma would start another option of the mount.
    if "," in str(directory) or not directory.is_dir():
        message = f"the skills {str(directory)!r} cannot be mounted: expected a directory without a comma in its name"
        raise SandboxError(message)
    return directory


async def _reads_line(process: trio.Process) -> bool:
    """Wait for a whole line of a process's output. False if it ended before."""
    assert process.stdout is not None  # noqa: S101 - a pipe was requested
    said = b""
    while b"\n" not in said:
        piece = await process.stdout.receive_some(4_096)
        if not piece:
            return False
        said = (said + piece)[-4_096:]
    return True
