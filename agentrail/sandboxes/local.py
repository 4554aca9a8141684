"""`LocalSandbox`: a directory of this machine. Files are confined to it. `command_process.py` confines commands."""

import copy
import functools
import os
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, TypeAlias, TypeVar

import trio

from agentrail import outside
from agentrail.abc import (
    DirectoryEntry,
    EditResult,
    ExecuteOptions,
    ExecuteResult,
    FileBytes,
    GlobResult,
    GrepOptions,
    GrepResult,
    ListResult,
    ProcessOptions,
    ReadResult,
    Refusal,
    Secret,
    Transfer,
    WriteResult,
)
from agentrail.abc.held_secrets import secrets_in_variables
from agentrail.abc.versions import FileKeeper, GetContent, PutBack
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.core.journal.file_changes import WantedFile
from agentrail.errors import ProcessRefused, SandboxError
from agentrail.logs import Logger
from agentrail.otp.field_rules import checks_arguments
from agentrail.private_paths import private_below
from agentrail.sandboxes.bubblewrap import Network
from agentrail.sandboxes.command_process import ErrorOutput, OpenedProcess
from agentrail.sandboxes.command_runner import CommandLimits, CommandRules, Commands, check_command
from agentrail.sandboxes.confinement import Confinement
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.files import HardLinks, OwnedDescriptor, copy_tree
from agentrail.sandboxes.grep import (
    SEARCH_SECONDS,
    Document,
    RipgrepSearch,
    decide_rules,
    fault_of_pattern,
    fill_batches,
    grep_in_helper,
    grep_with_ripgrep,
    refuse_slow,
)
from agentrail.sandboxes.path_patterns import FILE_NAME, PathPattern
from agentrail.sandboxes.paths import decide_anywhere, decide_names, join_names
from agentrail.sandboxes.process_tree import has_proc
from agentrail.sandboxes.programs import find_programs
from agentrail.sandboxes.protected_mounts import find_own_code, list_own_places
from agentrail.sandboxes.protected_names import PROTECTED, RESULTS_DIRECTORY, ProtectedNames
from agentrail.sandboxes.refusals import accept, refusal_of
from agentrail.sandboxes.safe_open import find_opener, open_anywhere, open_by_walk
from agentrail.sandboxes.text import decode_searched
from agentrail.sandboxes.versions import PlannedWrite, StagedFiles, VersionedFiles
from agentrail.sandboxes.walk import (
    MAX_SEARCHED_BYTES,
    DirectoryTree,
    compile_include,
    glob_tree,
    list_searched,
)

LOGGER: Final = Logger("agentrail.sandboxes")

T = TypeVar("T")
R = TypeVar("R", WriteResult, EditResult)
Names = tuple[str, ...]

MAX_FILE_THREADS: Final = 8
_AnyPath: TypeAlias = Annotated[
    str | os.PathLike[str], (lambda path: isinstance(path, str | os.PathLike), "a path")
]
"""Also one that no file can have, which is refused as a missing directory."""
MAX_WRITE_ATTEMPTS: Final = 3
"""Number of attempts for a write that conflicts with another program's writes."""

_WRITERS: Final = KeyedLocks()
"""Turns of writers, by Trio run and place of the file: several sandboxes may have the same directory."""


class LocalSandbox:
    """A directory of this machine as a `Sandbox`.

    Files: only files below the root can be opened, even if links are created or moved meanwhile.

    File work runs in worker threads. A local disk would answer sooner than a thread starts (25 µs against 190 µs for a
    listing), but a network file system may take seconds, which would block every session of the process. On cancellation, a
    reading thread is left to finish alone, because such a file system cannot be interrupted. A writing thread is waited
    for, so that each write either happened or did not.
    """

    _keeper: FileKeeper | None = None
    _kept_of: "LocalSandbox | None" = None

    @checks_arguments
    def __init__(  # noqa: PLR0913 - all but the first are options, by name
        self,
        root: _AnyPath,
        *,
        virtual_mode: bool = True,
        hard_links: HardLinks = "read",
        protected: Iterable[str] = PROTECTED,
        shell_fallback: ShellFallback = "refuse",
        network: Network = "none",
        readable: Iterable[str] = (),
        limits: CommandLimits | None = None,
        env: Mapping[str, str | Secret] | None = None,
        allow_root: bool = False,
    ) -> None:
        """Open the root. It stays the same directory, even if another directory takes its name.

        Args:
            root: An existing directory.
            virtual_mode: Whether paths are confined to the root. Without it, any file of the user can be read and
                written. Protected names still apply.
            hard_links: Treatment of a file with several names, one of which may be elsewhere: `read` it without
                writing it, `refuse` both, `allow` both.
            protected: Names that are never written, in any directory.
            shell_fallback: Treatment of commands that cannot be confined: `refuse` them, or run them `unconfined`,
                with the rights of the user.
            network: Network access of a confined command: `none`, or the same as the `host`.
            readable: Hidden paths that a confined command can see, such as `~/.cargo`.
            limits: Resource limits of a command.
            env: Variables for commands, in addition to those passed on. Records of sessions that use the sandbox from their start omit
                a `Secret`, and any value whose name suggests a key, a token, a password or similar.
            allow_root: Whether the root may be `/`.

        Raises:
            SandboxError: Your move: the root is missing, is not a directory, cannot be opened, is `/`, or is a directory
                of the code that runs in this process.
            OptionError: Your move: an option has an invalid value.
        """
        protected = tuple(protected)
        given = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would also follow links
        self._root = _open_root(given)
        self._close_root = weakref.finalize(self, os.close, self._root)
        self._path = resolved = _resolved_root(given, allow_root=allow_root)
        self._roots = (PurePosixPath(given), PurePosixPath(resolved))
        self._virtual = virtual_mode
        if not virtual_mode:
            LOGGER.warning("sandbox_not_virtual", root=str(resolved))
        self._programs = find_programs(resolved)
        self._files = self._open_files(hard_links, protected)
        self._threads = trio.CapacityLimiter(MAX_FILE_THREADS)
        rules = self._rules = CommandRules(
            shell_fallback=shell_fallback,
            network=network,
            readable=tuple(readable),
            limits=limits or CommandLimits(),
            env=_revealed(env or {}),
        )
        self._commands = Commands(self._root, resolved, self._files, rules, self._programs)
        self._file_rules = hard_links, protected, dict(env or {})

    def _open_files(self, hard_links: HardLinks, protected: Iterable[str]) -> VersionedFiles:
        own_code = find_own_code(self._path)
        return VersionedFiles(
            self._root,
            find_opener(self._root) if self._virtual else open_anywhere,
            is_confined=self._virtual,
            hard_links=hard_links,
            protected=ProtectedNames(
                protected,
                own_code if self._virtual else list_own_places(),
                functools.partial(private_below, self._path if self._virtual else Path("/")),
            ),
            own_code=own_code,
        )

    def __repr__(self) -> str:
        return f"LocalSandbox({str(self._path)!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of its commands, which records omit."""
        return secrets_in_variables(self._file_rules[2])

    @property
    def capabilities(self) -> frozenset[str]:
        """`versions`, and `execute` unless commands are known to be refused here."""
        return frozenset({"versions"} if self._commands.is_refused else {"versions", "execute"})

    @property
    def is_unconfined(self) -> bool:
        """Whether commands are known to run with the rights of the user."""
        return self._commands.is_unconfined

    async def aclose(self) -> None:
        """Close the root. Idempotent. No operation may be running."""
        self._close_root()
        await trio.lowlevel.checkpoint()

    # --- files

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file of at most 50 MB: UTF-8 with or without a byte order mark, or UTF-16 with one.

        Args:
            path: Below the root.
            offset: The first line, from 1.
            limit: Maximum number of lines. None for all.

        Returns:
            The lines, or an error with the code `file_not_found`, `is_directory`, `invalid_path`, `permission_denied`,
            `too_large` or `not_text`.

        Cancellation: Takes effect at once, without any change.
        """
        found = await self._reading("file", path, lambda names: self._files.read(names, offset, limit))
        return ReadResult(error=found) if isinstance(found, Refusal) else found

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace a file of at most 10 MiB or create it, with the directories above it.

        Returns:
            The written file, or an error, also with the codes `no_space` and `not_text`.

        Cancellation: Takes effect when the file is entirely the old one or the new one.
        """
        found = await self._writing(path, lambda names: self._files.plan_text(names, content))
        return WriteResult(error=found) if isinstance(found, Refusal) else found

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace the one occurrence of a text, or all. Line ends, byte order mark, mode and access control list stay as they are.

        Returns:
            The replacement, or an error, also with the codes `old_not_found`, `old_not_unique`, `invalid_edit`, and
            `changed` if another program wrote the file meanwhile.

        Cancellation: Takes effect when the file is entirely the old one or the new one.
        """
        check = outside.check_cancelled
        plan = functools.partial(
            self._files.plan_edit, old=old, new=new, replace_all=replace_all, check=check
        )
        found = await self._writing(path, plan, attempts=1)
        return EditResult(error=found) if isinstance(found, Refusal) else found

    async def leads_to(self, path: str) -> str | None:
        """Return a path's target through links, relative to the root, or absolute outside. None without links, or if refused.

        Cancellation: Takes effect at once, without any change.
        """
        found = await self._reading("file", path, self._end_of)
        return found if isinstance(found, str) else None

    async def exists(self, path: str) -> bool:
        """Return whether a readable file or directory exists."""
        return await self._reading("file", path, self._files.exists) is True

    async def list_dir(self, path: str) -> ListResult:
        """List a directory: subdirectories first, then by name. Links are shown, not followed.

        Returns:
            The entries, or an error with the code `file_not_found`, `invalid_path` or `permission_denied`.

        Cancellation: Takes effect at once, without any change.
        """
        found = await self._reading("directory", path, self._files.list_dir)
        return ListResult(error=found) if isinstance(found, Refusal) else found

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write files as bytes, one after another, each with its own answer.

        Cancellation: Files already written stay, the rest are not written.
        """
        return tuple([await self._upload(file) for file in files])

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes, one after another, each with its own answer.

        Cancellation: Takes effect at once, without any change.
        """
        return tuple([await self._download(path) for path in paths])

    async def _upload(self, file: FileBytes) -> Transfer:
        found = await self._writing(file.path, lambda names: self._files.plan_bytes(names, file.content))
        if isinstance(found, Refusal):
            return Transfer(path=file.path, error=found)
        return Transfer(path=file.path, size_bytes=len(file.content))

    async def _download(self, path: str) -> Transfer:
        found = await self._reading("file", path, self._files.read_bytes)
        if isinstance(found, Refusal):
            return Transfer(path=path, error=found)
        return Transfer(path=path, content=found, size_bytes=len(found))

    # --- searching

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find files and directories below a directory, by `* ** ? [a-z] {a,b}`.

        Returns:
            At most 500 paths, or an error, also with the code `invalid_pattern`.

        Cancellation: Takes effect at once.
        """

        def work(names: Names) -> GlobResult:
            self._files.list_dir(names)  # refuses a path that is not a directory
            return glob_tree(self._tree(), pattern, names)

        found = await self._reading("directory", path, work)
        return GlobResult(error=found) if isinstance(found, Refusal) else found

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search text files below a directory, or one file, for a regular expression.

        Returns:
            The matches, or an error, also with the codes `invalid_pattern` and `timeout`.

        Cancellation: Takes effect at once. The searching process is killed.
        """
        fault = fault_of_pattern(pattern)
        if fault is not None:
            await trio.lowlevel.checkpoint()
            return GrepResult(error=fault)
        with trio.move_on_after(SEARCH_SECONDS):
            return await self._grep(pattern, path, options)
        return GrepResult(error=refuse_slow())

    async def _grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        # In a thread too: a pattern may expand to hundreds, each of which is compiled.
        found = await self._reading(
            "file", path, lambda start: (start, self._files.is_file(start), compile_include(options.include))
        )
        if isinstance(found, Refusal):
            return GrepResult(error=found)
        start, is_file, include = found
        if isinstance(include, Refusal):
            return GrepResult(error=include)
        # ripgrep reads every file there. If some are private to the model, our own code reads them instead.
        program = None if private_below(self._path) else self._programs.ripgrep
        if program is not None and not is_file and self._virtual and has_proc():
            return await self._grep_with_ripgrep(program, pattern, start, options, include)
        listed = (
            [start] if is_file else await self._run_abandonable(list_searched, self._tree(), start, include)
        )
        batches = fill_batches(
            document for names in listed if (document := self._document(names)) is not None
        )

        async def next_batch() -> Sequence[Document]:
            return await self._run_abandonable(next, batches, ())

        return await grep_in_helper(pattern, options, next_batch, searched_files=len(listed))

    async def _grep_with_ripgrep(
        self, program: str, pattern: str, start: Names, options: GrepOptions, include: PathPattern | None
    ) -> GrepResult:
        def list_rules() -> list[str]:
            above = (
                (start[:depth], self._text_of((*start[:depth], FILE_NAME))) for depth in range(len(start))
            )
            return decide_rules(options.include, start, above)

        def read_all(paths: Sequence[str]) -> list[Document | None]:
            return [self._document(tuple(path.split("/"))) for path in paths]

        async def read(paths: Sequence[str]) -> Sequence[Document | None]:
            return await self._run_abandonable(read_all, paths)

        search = RipgrepSearch(
            program=program,
            root=f"/proc/self/fd/{self._root}",
            start=start,
            pattern=pattern,
            options=options,
            include=include,
            rules=await self._run_abandonable(list_rules),
        )
        return await grep_with_ripgrep(search, read)

    async def _run_abandonable(self, work: Callable[..., T], *args: object) -> T:
        return await outside.offload(work, *args, abandon_on_cancel=True, limiter=self._threads)

    def _tree(self) -> DirectoryTree:
        return DirectoryTree(list_dir=self._entries, read_text=self._text_of, check=outside.check_cancelled)

    def _document(self, names: Names) -> Document | None:
        text = self._text_of(names)
        return None if text is None else Document(path=join_names(names), text=text)

    def _entries(self, names: Names) -> Sequence[DirectoryEntry]:
        found = self._files.refusing("directory", names, lambda: self._files.list_dir(names))
        return () if isinstance(found, Refusal) else found.entries

    def _end_of(self, names: Names) -> str | None:
        # Names only: the file operation itself walks the path, and refuses a target outside.
        root = os.path.realpath(self._path)
        written = os.path.normpath(os.path.join(root, *names))  # noqa: PTH118 - links must stay in it
        real = os.path.realpath(os.path.join(root, *names))  # noqa: PTH118
        if real == written:
            return None
        return os.path.relpath(real, root) if real.startswith(f"{root}/") else real

    def _text_of(self, names: Names) -> str | None:
        data = self._files.refusing("file", names, lambda: self._files.read_bytes(names))
        if isinstance(data, Refusal) or len(data) > MAX_SEARCHED_BYTES:
            return None
        return decode_searched(data)

    # --- commands

    async def confinement(self) -> Confinement:
        """Return how commands run here, determined by a trial, once.

        Cancellation: The trial is killed, and repeated by the next caller.
        """
        return await self._commands.confinement()

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a command with `bash -c`, or with `sh -c` if bash is missing, confined as `confinement` reports.

        Args:
            command: For the shell.
            options: Its directory and its time limit.

        Returns:
            Its output and exit code, or an error if it did not start. A confined command that was ended by a signal has the exit code
            128 plus the number of the signal, as in a shell.

        Cancellation: The command and all its descendants get `SIGTERM`, two seconds later `SIGKILL`. Then it propagates.
        """
        fault = check_command(command)
        if fault is not None:
            await trio.lowlevel.checkpoint()
            return ExecuteResult(error=fault)
        directory = await self._open_for_command(options.workdir)
        if isinstance(directory, Refusal):
            return ExecuteResult(error=directory)
        with OwnedDescriptor(directory):
            found = await self._commands.run(command, directory, options)
        return ExecuteResult(error=found) if isinstance(found, Refusal) else found

    @asynccontextmanager
    async def open_process(
        self, argv: Sequence[str], options: ProcessOptions, *, errors: ErrorOutput | None = None
    ) -> AsyncIterator[OpenedProcess]:
        """Open an interactive process, confined as `confinement` reports. Leaving the block stops it.

        Args:
            argv: Program and arguments.
            options: Options of the process.
            errors: Destination of its standard error, in place of that of the options. `apart`: a pipe of its own.

        Raises:
            ProcessRefused: Commands are refused here, it could not be started, or its directory cannot be opened.

        Cancellation: The same as in `execute`.
        """
        directory = await self._open_for_command(options.workdir)
        if isinstance(directory, Refusal):
            raise ProcessRefused(directory.message, code=directory.code)
        with OwnedDescriptor(directory):
            async with self._commands.open_process(
                tuple(argv), directory, options, errors or options.errors
            ) as process:
                yield process

    async def keep_result_file(self, name: str, data: bytes) -> Refusal | None:
        """Write a file of a tool's result below `.agentrail/mcp/`, which tools can read.

        Cancellation: The file is written.
        """

        def write() -> None:
            with os.fdopen(self._files.create_output(name, RESULTS_DIRECTORY), "wb") as file:
                file.write(data)

        try:
            await outside.offload(write, limiter=self._threads)
        except OSError as error:
            return refusal_of(error, name)
        return None

    # --- versions

    def kept_by(self, keeper: FileKeeper) -> "LocalSandbox":
        """Return the same sandbox for one call, which announces each write to the keeper first."""
        view = copy.copy(self)
        view._keeper, view._kept_of = keeper, self  # noqa: SLF001 - the same class, and it keeps the root open
        return view

    async def put_back(
        self, wanted: Sequence[WantedFile], content: GetContent, keeper: FileKeeper, *, force: bool = False
    ) -> tuple[PutBack, ...]:
        """Restore files to earlier versions. A file that has changed since stays as it is, unless forced.

        Returns:
            The outcome of each file. If the disk is full or fails, no file was written.

        Cancellation: Before the first file is put in place, no file is changed. From then on, all files are.
        """
        stage = functools.partial(self._files.stage, wanted, content, self._names_of, force=force)
        try:
            staged = await outside.offload(stage, limiter=self._threads)
        except OSError as error:
            why = refusal_of(error, "the working directory").message
            return tuple([PutBack(path=one.path, outcome="failed", why=why) for one in wanted])
        is_put = False
        try:
            refused = await keeper.keep(staged.changes, staged.contents) if staged.ready else None
            if refused is None:
                is_put = True
                await outside.offload(self._files.put_in_place, staged, limiter=self._threads)
        finally:
            if not is_put:
                keeper.take_back(staged.changes)
                with trio.CancelScope(shield=True):  # as many files as were written so far
                    await outside.offload(self._files.discard, staged, limiter=self._threads)
        return _outcomes(wanted, staged, refused)

    async def copy_to(self, directory: Path) -> "LocalSandbox":
        """Copy all files into a directory that is missing or empty, and open it with the same settings.

        Raises:
            SandboxError: Your move: the directory is not empty, or cannot be created. Nothing of the copy is left.

        Cancellation: Nothing of the copy is left.
        """
        opener = open_by_walk if self._virtual else open_anywhere
        work = functools.partial(copy_tree, self._root, opener, directory, outside.check_cancelled)
        await outside.offload(work, limiter=self._threads)
        rules, (hard_links, protected, env) = self._rules, self._file_rules
        return LocalSandbox(
            directory,
            virtual_mode=self._virtual,
            hard_links=hard_links,
            protected=protected,
            shell_fallback=rules.shell_fallback,
            network=rules.network,
            readable=rules.readable,
            limits=rules.limits,
            env=env,
        )

    async def _writing(
        self,
        path: str,
        plan: Callable[[Names], PlannedWrite[R]],
        *,
        attempts: int = MAX_WRITE_ATTEMPTS,
    ) -> R | Refusal:
        """Write a file, by a plan that a keeper must know first. Writes of one file take turns, also of other sandboxes."""

        def write(names: Names) -> R:
            return self._files.carry_out(plan(names), is_kept=False)

        names = self._decide(path)
        place = None if isinstance(names, Refusal) else self._path.joinpath(*names)
        async with _WRITERS.hold((trio.lowlevel.current_trio_token(), place)):
            if (keeper := self._keeper) is None:
                return await self._in_thread("file", path, write, abandon=False)
            while True:
                attempts -= 1
                planned = await self._in_thread("file", path, plan, abandon=False)
                if isinstance(planned, Refusal):
                    return planned
                found = await self._carry_out(keeper, path, planned)
                if not isinstance(found, Refusal) or found.code != "changed" or attempts < 1:
                    return found

    async def _carry_out(self, keeper: FileKeeper, path: str, planned: PlannedWrite[R]) -> R | Refusal:
        changes = (planned.change,)
        is_written = False
        try:
            refused = await keeper.keep(changes, planned.contents)
            if refused is not None:
                return refused
            found = await self._in_thread(
                "file", path, lambda _: self._files.carry_out(planned, is_kept=True), abandon=False
            )
            is_written = not isinstance(found, Refusal)
            return found
        finally:
            if not is_written:
                keeper.take_back(changes)

    async def _open_for_command(self, workdir: str) -> int | Refusal:
        """Announce a command to the keeper, and open its directory, which the caller closes."""
        if self._keeper is not None and (refused := await self._keeper.keep_command()) is not None:
            return refused
        # Not abandoned on cancellation: the descriptor would be lost.
        return await self._in_thread("directory", workdir, self._files.open_directory, abandon=False)

    def _names_of(self, path: str) -> Names:
        return accept(self._decide(path))

    # --- in the event loop

    async def _reading(self, what: str, path: str, work: Callable[[Names], T]) -> T | Refusal:
        return await self._in_thread(what, path, work, abandon=True)

    async def _in_thread(
        self, what: str, path: str, work: Callable[[Names], T], *, abandon: bool
    ) -> T | Refusal:
        if not self._close_root.alive:
            message = f"{self!r} was closed"
            raise trio.ClosedResourceError(message)
        names = self._decide(path)
        if isinstance(names, Refusal):
            await trio.lowlevel.checkpoint()
            return names
        call = functools.partial(self._files.refusing, what, names, functools.partial(work, names))
        return await outside.offload(call, abandon_on_cancel=abandon, limiter=self._threads)

    def _decide(self, path: str) -> Names | Refusal:
        if self._virtual:
            return decide_names(path, self._roots)
        return decide_anywhere(path, self._roots[1], PurePosixPath(Path.home()))


def _revealed(env: Mapping[str, str | Secret]) -> dict[str, str]:
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in env.items()}


def _outcomes(
    wanted: Sequence[WantedFile], staged: StagedFiles, refused: Refusal | None
) -> tuple[PutBack, ...]:
    why = "" if refused is None else refused.message
    return tuple(
        [
            staged.outcomes.get(number) or PutBack(path=one.path, outcome="failed", why=why)
            for number, one in enumerate(wanted)
        ]
    )


def _resolved_root(given: Path, *, allow_root: bool) -> Path:
    """Return the name of the root after resolving links. The given one counts too."""
    resolved = given.resolve()
    if resolved == Path("/") and not allow_root:
        message = "the root of a sandbox is '/', the whole machine: name a directory, or set allow_root=True"
        raise SandboxError(message)
    return resolved


def _open_root(root: Path) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "no file can have this name")
        message = f"the root {str(root)!r} cannot be opened ({why}): name an existing directory"
        raise SandboxError(message) from None
