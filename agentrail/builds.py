"""The running build: pure, or with compiled hot modules.

Compiled modules call each other without the interpreter, so all or none are used. The façade ignores all of them if one is missing, replaced, or older than its
source, according to the build's record.
"""

import importlib.machinery
import importlib.util
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from agentrail.structs import decoder_of

RECORD: Final = "compiled.json"
"""File name of the record, in the package folder."""

FOLDER: Final = Path(__file__).resolve().parents[1]
"""Folder that contains the package."""


class BuildRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Record of a compiled build: suffix, file checksums, and source checksums by dotted name."""

    version: str
    suffix: str
    extensions: Mapping[str, int]
    sources: Mapping[str, int]


_RECORDS: Final = decoder_of(BuildRecord)


class Build(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The build of a package.

    Attributes:
        modules: Number of modules that run compiled. 0 is the pure build.
        compiled: Number of compiled modules, running or not.
        fault: Why compiled modules are not used or should not exist. None if there is no fault.
    """

    modules: int = 0
    compiled: int = 0
    fault: str | None = None


class SourcesOnly:
    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        return importlib.util.spec_from_file_location(name, source_of(self._folder, name))


def source_of(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('.', '/')}.py"


def choose_build(version: str) -> None:
    """Use compiled modules only if all belong together."""
    build, names = look_at_build(FOLDER, version)
    if build.fault is not None:
        sys.meta_path.insert(0, SourcesOnly(FOLDER, names))


def look_at_build(folder: Path, version: str) -> tuple[Build, tuple[str, ...]]:
    strays = {_name_of(folder, path): path for path in _extensions(folder)}
    try:
        record = _RECORDS.decode((folder / "agentrail" / RECORD).read_bytes())
    except FileNotFoundError:
        fault = f"{_say(folder, strays)} was compiled, but no record names its sources" if strays else None
        return Build(compiled=len(strays), fault=fault), tuple(strays)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        return Build(compiled=len(strays), fault=f"the record {RECORD} cannot be read: {error}"), tuple(
            strays
        )
    unknown = {name: path for name, path in strays.items() if name not in record.sources}
    fault = _fault_of(folder, version, record)
    if fault is None and unknown:
        fault = f"{_say(folder, unknown)} does not belong to this build"
    running = 0 if fault else len(record.sources)
    return Build(modules=running, compiled=len(record.sources), fault=fault), (*record.sources, *unknown)


def _fault_of(folder: Path, version: str, record: BuildRecord) -> str | None:
    if record.version != version:
        return f"they are of version {record.version}, and the package is {version}"
    if record.suffix not in importlib.machinery.EXTENSION_SUFFIXES:
        here = importlib.machinery.EXTENSION_SUFFIXES[0]
        return f"they were compiled for another Python ({record.suffix}), and this one needs {here}"
    for path, checksum in record.extensions.items():
        if (found := _checksum(folder / path)) is None:
            return f"{path} is missing"
        if found != checksum:
            return f"{path} belongs to another build"
    for name, checksum in record.sources.items():
        if _checksum(source_of(folder, name)) != checksum:
            return f"{name} was not compiled from the source next to it"
    return None


def _checksum(path: Path) -> int | None:
    try:
        return zlib.crc32(path.read_bytes())
    except OSError:
        return None


def _extensions(folder: Path) -> list[Path]:
    found = []
    for where, _, names in os.walk(folder / "agentrail"):
        found += [Path(where, name) for name in names if _stem(name) is not None]
    return sorted(found)


def _stem(name: str) -> str | None:
    return next(
        (name[: -len(end)] for end in importlib.machinery.EXTENSION_SUFFIXES if name.endswith(end)), None
    )


def _name_of(folder: Path, path: Path) -> str:
    return ".".join((*path.parent.relative_to(folder).parts, _stem(path.name) or path.name))


def _say(folder: Path, found: Mapping[str, Path]) -> str:
    first = next(iter(found.values())).relative_to(folder)
    return f"{first}" if len(found) == 1 else f"{first} (and {len(found) - 1} more)"
