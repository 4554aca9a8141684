"""Modules named as `package.module:NAME` in a file or command, loaded from their own files.

No directory joins the import path, where any file written would run. Modules imported from the same directory by a statement are found too. Their bytes are
read once, without bytecode.

Callers pass trusted names.
"""

import ast
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.search_path import LEFT_OUT, is_source_in

MAX_MODULE_FILES: Final = 1_000
"""Maximum number of files for one named module."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of all of them together, in bytes."""

_INITIAL: Final = "__init__.py"


@frozen(kw_only=True)
class ModuleFile:
    """A module, with its source when read. `path` is the directory for a package without a file."""

    name: str
    path: Path
    data: bytes = field(repr=False)
    is_package: bool


class NamedModules(MetaPathFinder):
    """Finds admitted modules after every other finder, one instance per process."""

    def __init__(self) -> None:
        self._files: dict[str, ModuleFile] = {}
        self._paths: set[Path] = set()

    def trace(self, module: str, folder: str) -> tuple[ModuleFile, ...]:
        """Read a module's file, and those next to it that it imports, without running code."""
        folders = [*([Path(folder)] if folder else []), *map(Path, LEFT_OUT), *_source_of(module, folder)]
        found: dict[str, ModuleFile] = {}
        waiting, seen = [module], set[str]()
        while waiting:
            for name in _with_parents(waiting.pop()):
                if name in seen:
                    continue
                seen.add(name)
                one = _read(name, folders)
                if one is None:
                    break
                found[name] = one
                waiting += _imports(one)
            if len(found) > MAX_MODULE_FILES or sum(len(one.data) for one in found.values()) > MAX_BYTES:
                message = (
                    f"module {module!r} imports more than {MAX_MODULE_FILES} files or {MAX_BYTES >> 20} MiB next to it: "
                    "name a module that imports less"
                )
                raise OptionError([message])
        return tuple(found.values()) if module in found else ()

    def admit(self, files: Iterable[ModuleFile]) -> None:
        """Allow importing these modules by name, and protect them from tools (`own_code.py`).

        A module of such a name elsewhere wins.
        """
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)  # so that bytecode next to these files is not read
        for one in files:
            known = self._files.get(one.name) if one.name in sys.modules else None
            if known is not None:
                if known.path != one.path and known.data != one.data:
                    message = f"module {one.name!r} is {known.path} in this process, so {one.path} cannot be loaded: rename one of them"
                    raise OptionError([message])
                self._paths.add(one.path)
                continue
            other = _installed(one.name.partition(".")[0])
            if other is None or _is_top_of(one, other):
                self._files[one.name] = one
                self._paths.add(one.path)

    def load(self, module: str, folder: str) -> ModuleType:
        files = self.trace(module, folder)
        self.admit(files)
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise self._explained(error, files) from error
        origin = getattr(loaded, "__file__", None)
        if origin:
            self._paths.add(Path(origin))
        return loaded

    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(one for one in self._paths if one.suffix))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        one = self._files.get(fullname)
        if one is None:
            return None
        loader: Any = _FileLoader(one)
        # Without search locations: below a package only admitted modules are found.
        spec = importlib.machinery.ModuleSpec(
            fullname, loader, origin=str(one.path), is_package=one.is_package
        )
        spec.has_location = True
        return spec

    def _explained(self, error: ModuleNotFoundError, files: Sequence[ModuleFile]) -> ImportError:
        own = next((one for one in files if one.name == error.name), None)
        other = _installed(own.name.partition(".")[0]) if own is not None else None
        if own is not None and other is not None:
            message = f"{error}: {own.path} is ignored, because {other} has the same name; rename your module"
        elif own is None and files and error.name:
            message = (
                f"{error}: a module next to {files[-1].path.name} is found if an import statement names it"
            )
        else:
            return error
        return ModuleNotFoundError(message, name=error.name)


class _FileLoader(importlib.machinery.SourceFileLoader):
    """Compiles the bytes that were read, ignoring bytecode."""

    def __init__(self, file: ModuleFile) -> None:
        super().__init__(file.name, str(file.path))
        self._source = file.data

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self._source, self.path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._source)


NAMED_MODULES: Final = NamedModules()
"""The finder of this process."""


def _installed(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or isinstance(spec.loader, _FileLoader):
        return None
    places = [spec.origin] if spec.has_location else [*(spec.submodule_search_locations or ())]
    return Path(places[0] or name) if places else Path(name)


def _source_of(module: str, folder: str) -> tuple[Path, ...]:
    """Return the path of an installed module's source below a directory, or empty."""
    origin = _installed(module.partition(".")[0]) if folder else None
    if origin is None or not is_source_in(str(origin), os.path.realpath(folder)):
        return ()
    return (origin.parent.parent if origin.name == _INITIAL else origin.parent,)


def _is_top_of(file: ModuleFile, other: Path) -> bool:
    depth = file.name.count(".")
    top = file.path.parent if file.path.name == _INITIAL else file.path
    for _ in range(depth):
        top = top.parent
    found = other.parent if other.name == _INITIAL else other
    return os.path.realpath(top) == os.path.realpath(found)


def _with_parents(name: str) -> Iterator[str]:
    words = name.split(".")
    for depth in range(1, len(words) + 1):
        yield ".".join(words[:depth])


def _read(name: str, folders: Sequence[Path]) -> ModuleFile | None:
    words = name.split(".")
    if words[0] in sys.stdlib_module_names or words[0] == __name__.partition(".")[0]:
        return None
    for folder in folders:
        base = folder.joinpath(*words)
        for path, is_package in ((base / _INITIAL, True), (base.with_name(f"{base.name}.py"), False)):
            if path.is_file():
                return ModuleFile(name=name, path=path, data=_bytes_of(path), is_package=is_package)
    for folder in folders:
        if (base := folder.joinpath(*words)).is_dir():
            return ModuleFile(name=name, path=base, data=b"", is_package=True)
    return None


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise OptionError([f"{path} cannot be read: {error.strerror}"]) from error


def _imports(file: ModuleFile) -> Iterator[str]:
    try:
        tree = ast.parse(file.data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # its importer gets the error
    package = file.name if file.is_package else file.name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, package)
            if base:
                yield base
                yield from (f"{base}.{one.name}" for one in node.names if one.name != "*")


def _base_of(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    words = package.split(".") if package else []
    kept = words[: len(words) - (node.level - 1)] if node.level <= len(words) else []
    return ".".join([*kept, node.module] if node.module else kept)
