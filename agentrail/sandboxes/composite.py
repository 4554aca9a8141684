"""`CompositeSandbox`: several sandboxes under one root, each below its own prefix."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import Final, TypeVar, cast

import trio
from attrs import evolve, frozen

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
    ProcessSandbox,
    ReadResult,
    Refusal,
    Sandbox,
    SnapshotSandbox,
    ToolProcess,
    Transfer,
    WriteResult,
)
from agentrail.abc.held_secrets import secrets_held_by
from agentrail.core.values.port_members import offers
from agentrail.errors import OptionError, ProcessRefused
from agentrail.otp.field_rules import checks_arguments
from agentrail.sandboxes.path_patterns import PatternFault, compile_pattern
from agentrail.sandboxes.paths import decide_names
from agentrail.sandboxes.walk import MAX_GLOB_PATHS

T = TypeVar("T")
Names = tuple[str, ...]

_ROOTS: Final = (PurePosixPath("/"),)


@frozen(kw_only=True)
class _Place:
    """The target of a path: its sandbox, its prefix, and its names there."""

    sandbox: Sandbox
    prefix: Names
    names: Names

    @property
    def path(self) -> str:
        return "/".join(self.names) or "."

    def outside(self, path: str) -> str:
        return "/".join((*self.prefix, path))


class CompositeSandbox:
    """A default sandbox, and others below prefixes. The longest matching prefix wins, and is removed from the path.

    Relative paths count from `/`. Commands and snapshots belong to the default, which does not see the files of the others.
    """

    @checks_arguments
    def __init__(self, default: Sandbox, routes: Mapping[str, Sandbox]) -> None:
        """Combine sandboxes. All of them are closed with this one.

        Args:
            default: For paths without a matching prefix.
            routes: By prefix, such as `/memories/`.

        Raises:
            OptionError: Your move: a prefix that does not start and end with `/`, is `/`, or is repeated.
        """
        self._default = default
        self._routes: dict[Names, Sandbox] = {}
        faults: list[str] = []
        for prefix, sandbox in routes.items():
            names = decide_names(prefix, _ROOTS)
            if isinstance(names, Refusal) or not names or not (prefix[0] == prefix[-1] == "/"):
                faults.append(
                    f"route {prefix!r}: expected a path such as '/memories/', with a slash at both ends"
                )
            elif names in self._routes:
                faults.append(f"route {prefix!r} is given twice")
            else:
                self._routes[names] = sandbox
        OptionError.raise_for(faults)

    def __repr__(self) -> str:
        return f"CompositeSandbox({self._default!r}, {', '.join('/'.join(names) for names in sorted(self._routes))})"

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the default, except `versions`: writes to the others would be missed."""
        return self._default.capabilities - {"versions"}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of all of them, which no record may contain."""
        parts = (self._default, *self._routes.values())
        return tuple([text for one in parts for text in secrets_held_by(one)])

    async def aclose(self) -> None:
        """Close all of them, the default first. Idempotent.

        Cancellation: Each is closed nevertheless.
        """
        async with AsyncExitStack() as stack:
            for sandbox in reversed((self._default, *self._routes.values())):
                stack.push_async_callback(sandbox.aclose)

    # --- files

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read lines in the sandbox of the path."""
        return await self._at(
            ReadResult, path, lambda place: place.sandbox.read(place.path, offset=offset, limit=limit)
        )

    async def write(self, path: str, content: str) -> WriteResult:
        """Write in the sandbox of the path."""
        return await self._at(WriteResult, path, lambda place: place.sandbox.write(place.path, content))

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Edit in the sandbox of the path."""
        return await self._at(
            EditResult, path, lambda place: place.sandbox.edit(place.path, old, new, replace_all=replace_all)
        )

    async def leads_to(self, path: str) -> str | None:
        """Return a path's target through links, as its sandbox sees it: relative to this root, or absolute outside."""
        place = self._place_of(path)
        if isinstance(place, Refusal) or (find := getattr(place.sandbox, "leads_to", None)) is None:
            await trio.lowlevel.checkpoint()
            return None
        end: str | None = await find(place.path)
        return end if end is None or end.startswith("/") else place.outside(end)

    async def exists(self, path: str) -> bool:
        """Return whether the path exists in its sandbox. A prefix always exists."""
        names = decide_names(path, _ROOTS)
        if not isinstance(names, Refusal) and self._prefixes_below(names):
            await trio.lowlevel.checkpoint()
            return True
        return await self._at(
            lambda error: error is None, path, lambda place: place.sandbox.exists(place.path)
        )

    async def list_dir(self, path: str) -> ListResult:
        """List a directory. Prefixes below it are directories too."""
        return await self._at(ListResult, path, self._list_dir)

    async def _list_dir(self, place: _Place) -> ListResult:
        listing = await place.sandbox.list_dir(place.path)
        names = (*place.prefix, *place.names)
        mounted = {below[len(names)] for below in self._prefixes_below(names) if len(below) > len(names)}
        if not mounted:
            return listing
        # An error of this sandbox about a missing directory is ignored if other sandboxes have it.
        entries = [entry for entry in listing.entries if entry.name not in mounted]
        entries += [DirectoryEntry(name=name, kind="dir") for name in sorted(mounted)]
        return ListResult(entries=tuple(sorted(entries, key=lambda entry: (entry.kind != "dir", entry.name))))

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write each file in the sandbox of its path."""
        return tuple([await self._transfer(file.path, partial(_upload, file)) for file in files])

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read each file in the sandbox of its path."""
        return tuple([await self._transfer(path, _download) for path in paths])

    async def _transfer(self, path: str, move: Callable[[_Place], Awaitable[Transfer]]) -> Transfer:
        return evolve(await self._at(partial(Transfer, path=path), path, move), path=path)

    # --- searching

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find names in the sandbox of the path and below each prefix there. At most 500 in total, the default's first."""
        return await self._at(GlobResult, path, lambda place: self._glob(pattern, place))

    async def _glob(self, pattern: str, place: _Place) -> GlobResult:
        try:
            compiled = compile_pattern(pattern)
        except PatternFault:
            return await place.sandbox.glob(pattern, place.path)  # which reports its fault
        start = (*place.prefix, *place.names)
        first = await place.sandbox.glob(pattern, place.path)
        others = self._places_below(start)
        if first.error is not None and not others:
            return first
        paths = [path for one in first.paths if self._is_of(place, path := place.outside(one))]
        truncated = first.truncated
        for other in others:
            # The pattern applies to the path from the start of the search, which is above the other sandbox.
            every = await other.sandbox.glob("**", ".")
            truncated = truncated or every.truncated
            for found in ("", *every.paths):
                below = tuple(other.outside(found).rstrip("/").split("/"))[len(start) :]
                is_directory = not found or found.endswith("/")
                if self._is_of(other, other.outside(found)) and compiled.matches(
                    below, is_directory=is_directory
                ):
                    paths.append(other.outside(found) if found else f"{'/'.join(other.prefix)}/")
        return GlobResult(
            paths=tuple(paths[:MAX_GLOB_PATHS]), truncated=truncated or len(paths) > MAX_GLOB_PATHS
        )

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search the sandbox of the path and below each prefix there, with one limit for all, the default first."""
        return await self._at(GrepResult, path, lambda place: self._grep(pattern, options, place))

    async def _grep(self, pattern: str, options: GrepOptions, place: _Place) -> GrepResult:
        others = self._places_below((*place.prefix, *place.names))
        total = GrepResult()
        left = options.max_results
        for one in (place, *others):
            found = await one.sandbox.grep(pattern, one.path, evolve(options, max_results=max(left, 1)))
            if found.error is not None:
                if found.error.code == "file_not_found" and others:
                    continue  # a directory on the path to a prefix, which only the prefix has
                return found
            if left == 0 and found.lines:  # asked only whether there are more
                return evolve(total, truncated=True)
            named = (evolve(line, path=one.outside(line.path)) for line in found.lines)
            lines = tuple(line for line in named if self._is_of(one, line.path))
            left -= sum(line.is_match for line in lines)
            total = GrepResult(
                lines=(*total.lines, *lines),
                searched_files=total.searched_files + found.searched_files,
                truncated=found.truncated,
            )
            if found.truncated:
                return total
        return total

    # --- operations of the default

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a command in the default."""
        return await self._at(
            ExecuteResult,
            options.workdir,
            lambda place: place.sandbox.execute(command, evolve(options, workdir=place.path)),
            only_default=True,
        )

    @property
    def is_unconfined(self) -> bool:
        """Whether commands of the default are known to run with the rights of the user."""
        return getattr(self._default, "is_unconfined", False) is True

    @asynccontextmanager
    async def open_process(self, argv: Sequence[str], options: ProcessOptions) -> AsyncIterator[ToolProcess]:
        """Open a process in the default.

        Raises:
            ProcessRefused: The refusals of the default, or it cannot open processes.
        """
        found = self._place_of(options.workdir, only_default=True)
        if isinstance(found, Refusal):
            raise ProcessRefused(found.message, code=found.code)
        if not offers(found.sandbox, ProcessSandbox):
            message = f"{type(found.sandbox).__name__} cannot open processes"
            raise ProcessRefused(message, code="unsupported")
        async with found.sandbox.open_process(argv, evolve(options, workdir=found.path)) as process:
            yield process

    async def snapshot(self) -> str:
        """Keep the files of the default."""
        return await cast("SnapshotSandbox", self._default).snapshot()

    async def restore(self, snapshot_id: str) -> Refusal | None:
        """Restore the files of the default."""
        return await cast("SnapshotSandbox", self._default).restore(snapshot_id)

    # --- routing

    async def _at(
        self,
        kind: Callable[..., T],
        path: str,
        work: Callable[[_Place], Awaitable[T]],
        *,
        only_default: bool = False,
    ) -> T:
        """Work in the sandbox of a path. A path without one is the error of a result of this kind."""
        place = self._place_of(path, only_default=only_default)
        if isinstance(place, Refusal):
            await trio.lowlevel.checkpoint()
            return kind(error=place)
        return await work(place)

    def _place_of(self, path: str, *, only_default: bool = False) -> _Place | Refusal:
        names = decide_names(path, _ROOTS)  # refuses `..`, so no path climbs from one sandbox into another
        if isinstance(names, Refusal):
            return names
        place = self._route(names)
        if only_default and place.prefix:
            message = f'Commands do not run below "/{"/".join(place.prefix)}/": choose another workdir.'
            return Refusal(code="unsupported", message=message)
        return place

    def _route(self, names: Names) -> _Place:
        for depth in range(len(names), 0, -1):
            sandbox = self._routes.get(names[:depth])
            if sandbox is not None:
                return _Place(sandbox=sandbox, prefix=names[:depth], names=names[depth:])
        return _Place(sandbox=self._default, prefix=(), names=names)

    def _is_of(self, place: _Place, path: str) -> bool:
        """Return whether a found path belongs to this sandbox, rather than to one that hides it with its prefix."""
        return self._route(tuple(path.rstrip("/").split("/"))).prefix == place.prefix

    def _prefixes_below(self, names: Names) -> list[Names]:
        return [prefix for prefix in sorted(self._routes) if prefix[: len(names)] == names]

    def _places_below(self, names: Names) -> list[_Place]:
        below = (prefix for prefix in self._prefixes_below(names) if prefix != names)
        return [_Place(sandbox=self._routes[prefix], prefix=prefix, names=()) for prefix in below]


async def _upload(file: FileBytes, place: _Place) -> Transfer:
    (transfer,) = await place.sandbox.upload([evolve(file, path=place.path)])
    return transfer


async def _download(place: _Place) -> Transfer:
    (transfer,) = await place.sandbox.download([place.path])
    return transfer
