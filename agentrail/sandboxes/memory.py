"""`MemorySandbox`: files in a dictionary, with the same rules and messages as a directory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Final, TypeVar

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
    ReadResult,
    Refusal,
    Transfer,
    WriteResult,
)
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.otp.field_rules import checks_arguments
from agentrail.sandboxes.files import edit_bytes, hash_bytes
from agentrail.sandboxes.grep import Document, fault_of_pattern, fill_batches, grep_in_helper
from agentrail.sandboxes.paths import decide_names, join_names, show_names
from agentrail.sandboxes.protected_names import PROTECTED, ProtectedNames
from agentrail.sandboxes.refusals import (
    PathRefused,
    accept,
    check_read_size,
    check_written_size,
    describe_neighbours,
    encode_text,
    refuse_directory,
    refuse_missing,
)
from agentrail.sandboxes.text import count_lines, decode_searched, read_page
from agentrail.sandboxes.walk import (
    MAX_SEARCHED_BYTES,
    DirectoryTree,
    compile_include,
    glob_tree,
    list_searched,
)

T = TypeVar("T")
Names = tuple[str, ...]

_ROOTS: Final = (PurePosixPath("/"),)
_SMALL_BYTES: Final = 1 << 16
"""Size up to which work runs at once: a thread would cost more, and a virtual clock would not wait for it."""
_BYTES_PER_FILE: Final = 256  # of text, equal to the cost of looking at a file


class MemorySandbox:
    """Files in memory: no links, no permissions, no commands. For tests and temporary work.

    A directory exists as long as a file is below it. Absolute paths count from the root.
    """

    @checks_arguments
    def __init__(
        self, files: Mapping[str, str | bytes] | None = None, *, protected: Iterable[str] = PROTECTED
    ) -> None:
        """Create a sandbox with these files.

        Args:
            files: By path. Texts are stored as UTF-8.
            protected: Names that are never written, in any directory. `files` may contain them.

        Raises:
            ValueError: Your move: an invalid path, or a file below a file. The message names it.
        """
        self._protected = ProtectedNames(protected)
        self._files: dict[Names, bytes] = {}
        self._children: dict[Names, dict[str, None]] = {}
        """Names in each directory, so that a call costs what it touches, however many files there are."""
        self._snapshots: dict[str, dict[Names, bytes]] = {}
        self._locks = KeyedLocks()
        for path, content in (files or {}).items():
            data = content.encode() if isinstance(content, str) else content
            try:
                self._put(_decide(path), data)
            except PathRefused as refused:
                raise ValueError(refused.refusal.message) from None

    def __repr__(self) -> str:
        return f"MemorySandbox({len(self._files)} files)"

    @property
    def capabilities(self) -> frozenset[str]:
        """`snapshot`."""
        return frozenset({"snapshot"})

    async def aclose(self) -> None:
        """Do nothing: no resource is held."""
        await trio.lowlevel.checkpoint()

    # --- files

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file, like `LocalSandbox.read`."""

        def work() -> ReadResult:
            names = _decide(path)
            data = self._get(names)
            return read_page(
                [data] if data else [],
                offset=offset,
                limit=limit,
                path=show_names(names),
                size_bytes=len(data),
            )

        found = await _settle(work)
        return ReadResult(error=found) if isinstance(found, Refusal) else found

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace a file or create it, like `LocalSandbox.write`."""

        def work() -> WriteResult:
            names = _decide(path)
            self._protected.check_written(names)
            data = encode_text(content, show_names(names))
            check_written_size(len(data), show_names(names))
            before = self._files.get(names)
            self._put(names, data)
            return WriteResult(
                is_new=before is None,
                total_lines=count_lines(content),
                size_bytes=len(data),
                sha256=hash_bytes(data),
                sha256_before=None if before is None else hash_bytes(before),
            )

        found = await _settle(work)
        return WriteResult(error=found) if isinstance(found, Refusal) else found

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace a text in a file, like `LocalSandbox.edit`."""

        def work() -> tuple[Names, bytes]:
            names = _decide(path)
            self._protected.check_written(names)
            shown = show_names(names)
            encode_text(new, shown)
            return names, self._get(names)

        # Large files are edited in a thread, and a concurrent edit waits for its turn.
        async with self._locks.hold(path):
            return await self._edit(work, old, new, replace_all=replace_all)

    async def _edit(
        self, find: Callable[[], tuple[Names, bytes]], old: str, new: str, *, replace_all: bool
    ) -> EditResult:
        found = await _settle(find)
        if isinstance(found, Refusal):
            return EditResult(error=found)
        names, before = found
        edit = partial(edit_bytes, before, old, new, replace_all=replace_all, shown=show_names(names))
        edited = await _apart(edit, len(before) + len(old) + len(new))
        if isinstance(edited, Refusal):
            return EditResult(error=edited)
        if self._files.get(names) is not before:
            message = f"{show_names(names)} changed while it was being edited. Read it again."
            return EditResult(error=Refusal(code="changed", message=message))
        data, replacements, diff = edited
        self._files[names] = data
        return EditResult(
            replacements=replacements, diff=diff, sha256=hash_bytes(data), sha256_before=hash_bytes(before)
        )

    async def exists(self, path: str) -> bool:
        """Return whether a readable file or directory exists."""

        def work() -> bool:
            names = _decide(path)
            self._protected.check_read(names)
            return names in self._files or self._is_directory(names)

        return await _settle(work) is True

    async def list_dir(self, path: str) -> ListResult:
        """List a directory, like `LocalSandbox.list_dir`."""
        found = await _settle(lambda: self._list_dir(_decide(path)))
        return ListResult(error=found) if isinstance(found, Refusal) else ListResult(entries=found)

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write files as bytes, each with its own answer."""
        return tuple([await self._upload(file) for file in files])

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes, each with its own answer."""
        return tuple([await self._download(path) for path in paths])

    async def _upload(self, file: FileBytes) -> Transfer:
        def work() -> None:
            names = _decide(file.path)
            self._protected.check_written(names)
            check_written_size(len(file.content), show_names(names))
            self._put(names, file.content)

        fault = await _settle(work)
        return Transfer(path=file.path, size_bytes=0 if fault else len(file.content), error=fault)

    async def _download(self, path: str) -> Transfer:
        found = await _settle(lambda: self._get(_decide(path)))
        if isinstance(found, Refusal):
            return Transfer(path=path, error=found)
        return Transfer(path=path, content=found, size_bytes=len(found))

    # --- searching

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find files and directories, like `LocalSandbox.glob`."""

        def work(check: Callable[[], None]) -> GlobResult:
            start = _decide(path)
            seen._list_dir(start)  # noqa: SLF001 - a private copy; refuses a path that is not a directory
            return glob_tree(seen._tree(check), pattern, start)  # noqa: SLF001 - see above

        seen = self._as_it_is()
        found = await _apart(work, len(self._files) * _BYTES_PER_FILE)
        return GlobResult(error=found) if isinstance(found, Refusal) else found

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search text files, like `LocalSandbox.grep`, always with Python's `re` in a helper process.

        Cancellation: The helper is killed.
        """

        def work(check: Callable[[], None]) -> list[Names]:
            include = accept(compile_include(options.include))
            start = _decide(path)
            seen._protected.check_read(start)  # noqa: SLF001 - a private copy
            if start in seen._files:  # noqa: SLF001 - see above
                return [start]
            seen._list_dir(start)  # noqa: SLF001 - see above; refuses a path that is not a directory
            return list_searched(seen._tree(check), start, include)  # noqa: SLF001 - see above

        fault = fault_of_pattern(pattern)
        if fault is not None:
            await trio.lowlevel.checkpoint()
            return GrepResult(error=fault)
        seen = self._as_it_is()
        # A search starts a process, so the cost of a thread does not matter. The list of ignored files may be long.
        found = await _apart(work, _SMALL_BYTES + 1)
        if isinstance(found, Refusal):
            return GrepResult(error=found)
        batches = fill_batches(seen._documents(found))  # noqa: SLF001 - see above

        async def next_batch() -> Sequence[Document]:
            return await outside.offload(next, batches, (), abandon_on_cancel=True)

        return await grep_in_helper(pattern, options, next_batch, searched_files=len(found))

    # --- commands and snapshots

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Refuse: no command can run here."""
        await trio.lowlevel.checkpoint()
        message = "Commands are disabled: the files of this session are in memory, where commands cannot run."
        return ExecuteResult(error=Refusal(code="unsupported", message=message))

    async def snapshot(self) -> str:
        """Keep the current state of all files. Contents are shared, so this costs only a table of names."""
        await trio.lowlevel.checkpoint()
        name = f"snapshot-{len(self._snapshots) + 1}"
        self._snapshots[name] = dict(self._files)
        return name

    async def restore(self, snapshot_id: str) -> Refusal | None:
        """Restore all files."""
        await trio.lowlevel.checkpoint()
        kept = self._snapshots.get(snapshot_id)
        if kept is None:
            known = ", ".join(self._snapshots) or "none"
            message = f'There is no snapshot "{snapshot_id}". There are: {known}'
            return Refusal(code="file_not_found", message=message)
        self._files, self._children = dict(kept), {}
        for names in kept:
            self._enter(names)
        return None

    # --- the dictionary

    def _get(self, names: Names) -> bytes:
        self._protected.check_read(names)
        data = self._files.get(names)
        if data is None:
            if self._is_directory(names):
                raise refuse_directory(show_names(names))
            raise self._missing(names, what="file")
        check_read_size(len(data), show_names(names))
        return data

    def _put(self, names: Names, data: bytes) -> None:
        if self._is_directory(names):
            raise refuse_directory(show_names(names))
        self._refuse_way_through_file(names)
        if names not in self._files:
            self._enter(names)
        self._files[names] = data

    def _enter(self, names: Names) -> None:
        for depth, name in enumerate(names):
            self._children.setdefault(names[:depth], {})[name] = None

    def _refuse_way_through_file(self, names: Names) -> None:
        if any(names[:depth] in self._files for depth in range(1, len(names))):
            raise PathRefused(
                code="invalid_path",
                message=f"{show_names(names)}: it leads through something that is not a directory.",
            )

    def _is_directory(self, names: Names) -> bool:
        return not names or names in self._children

    def _list_dir(self, names: Names) -> tuple[DirectoryEntry, ...]:
        self._protected.check_read(names)
        if names in self._files:
            raise PathRefused(code="invalid_path", message=f"{show_names(names)}: it is not a directory.")
        if not self._is_directory(names):
            raise self._missing(names, what="directory")
        entries: list[DirectoryEntry] = []
        for name in self._children.get(names, ()):
            if self._protected.find_read((*names, name)) is None:
                data = self._files.get((*names, name))
                kind, size_bytes = ("dir", 0) if data is None else ("file", len(data))
                entries.append(DirectoryEntry(name=name, kind=kind, size_bytes=size_bytes))
        return tuple(sorted(entries, key=lambda entry: (entry.kind != "dir", entry.name)))

    def _missing(self, names: Names, *, what: str) -> PathRefused:
        self._refuse_way_through_file(names)
        depth = next(depth for depth in range(len(names) - 1, -1, -1) if self._is_directory(names[:depth]))
        every = [entry.name for entry in self._list_dir(names[:depth])]
        return refuse_missing(what, names, describe_neighbours(every, names, depth))

    def _as_it_is(self) -> "MemorySandbox":
        """Return a read-only copy for a thread. Contents are shared."""
        seen = MemorySandbox()
        seen._protected, seen._files = self._protected, dict(self._files)
        seen._children = {names: dict(entries) for names, entries in self._children.items()}
        return seen

    def _tree(self, check: Callable[[], None]) -> DirectoryTree:
        return DirectoryTree(list_dir=self._entries, read_text=self._text_of, check=check)

    def _entries(self, names: Names) -> Sequence[DirectoryEntry]:
        entries = _result(lambda: self._list_dir(names))
        return () if isinstance(entries, Refusal) else entries

    def _text_of(self, names: Names) -> str | None:
        data = self._files.get(names)
        if data is None or len(data) > MAX_SEARCHED_BYTES:
            return None
        return decode_searched(data)

    def _documents(self, every: Iterable[Names]) -> Iterator[Document]:
        for names in every:
            text = self._text_of(names)
            if text is not None:
                yield Document(path=join_names(names), text=text)


def _decide(path: str) -> Names:
    return accept(decide_names(path, _ROOTS))


def _result(work: Callable[[], T]) -> T | Refusal:
    try:
        return work()
    except PathRefused as refused:
        return refused.refusal


async def _settle(work: Callable[[], T]) -> T | Refusal:
    await trio.lowlevel.checkpoint()
    return _result(work)


async def _apart(work: Callable[..., T], size_bytes: int) -> T | Refusal:
    """Run work that may take long: in a thread, unless it is small. The work calls its argument at intervals."""
    if size_bytes <= _SMALL_BYTES:
        return await _settle(lambda: work(check=lambda: None))  # small work is not interrupted
    return await outside.offload(_result, lambda: work(check=outside.check_cancelled))
