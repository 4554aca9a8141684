"""Folders of documents on this machine: the documents in them, and documents of a base whose files no longer exist.

Only folders that the user adds again are compared with the disk. A search never is: a base may be read on a machine
without its files.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from agentrail.abc.knowledge import KnowledgeDocument
from agentrail.stores.documents import HTML, MARKDOWN, PDF
from agentrail.tools.printing import counted, printable

_WALKED: Final = MARKDOWN | HTML | PDF | {".txt"}
"""File types added from a directory. A file given by name may have any type."""


@frozen
class WalkedFolders:
    """The files below some paths.

    Attributes:
        unread: Directories that cannot be listed, with the reason.
    """

    files: tuple[Path, ...]
    folders: tuple[Path, ...]
    unread: tuple[tuple[Path, str], ...]


def walk_folders(paths: Sequence[Path]) -> WalkedFolders:
    """List the documents below existing paths."""
    found: dict[Path, None] = {}
    unread: list[OSError] = []
    folders = tuple([path for path in paths if path.is_dir()])
    for path in paths:
        if path not in folders:
            found[path] = None
            continue
        inside = [
            Path(folder) / name
            for folder, _, names in os.walk(path, onerror=unread.append)
            for name in names
            if Path(name).suffix.lower() in _WALKED
        ]
        found.update(dict.fromkeys(filter(_is_file, sorted(inside))))
    return WalkedFolders(
        tuple(found),
        folders,
        tuple([(Path(one.filename), f"it cannot be read: {one.strerror}") for one in unread]),
    )


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False  # a dangling link
    except OSError:
        return True  # reading it will report the reason


def documents_below(path: Path, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """Return the document of this path, or those of this folder and its subfolders. Web addresses belong to no folder."""
    whole = _absolute(path)
    return [one for one in documents if "://" not in one.path and _absolute(one.path).is_relative_to(whole)]


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`, and `resolve` follows links


@frozen
class Missing:
    """Documents of a base that were not found in the folder that they were added from.

    Attributes:
        doubt: Why they may still exist, or empty if their files no longer exist.
    """

    place: Path
    documents: tuple[KnowledgeDocument, ...]
    doubt: str


def missing_documents(
    folder: Path, before: Sequence[KnowledgeDocument], found: Sequence[Path], digests: Collection[str]
) -> Iterator[Missing]:
    """Compare a folder with the base's documents from it.

    A missing file in a folder that can be listed no longer exists. There is doubt if the folder is empty, or if it has
    no file that was added from there: it may be the mount point of an unmounted disk, or another folder of the same
    name.
    """
    present = set(map(_absolute, found))
    known = [(_absolute(one.path), one) for one in documents_below(folder, before)]
    absent = [(path, one) for path, one in known if path not in present and not path.exists()]
    doubts: dict[tuple[Path, str], list[KnowledgeDocument]] = {}
    gone: list[KnowledgeDocument] = []
    for path, document in absent:
        doubt = _doubt(path)
        (gone if doubt is None else doubts.setdefault(doubt, [])).append(document)
    if len(absent) < len(known) or any(one.digest in digests for one in gone):
        yield Missing(folder, tuple(gone), "")
    elif gone:
        doubts.setdefault((_absolute(folder), "nothing in the folder was added from there"), []).extend(gone)
    for (place, why), documents in doubts.items():
        yield Missing(place, tuple(documents), why)


def _doubt(path: Path) -> tuple[Path, str] | None:
    """Return the folder that makes a missing file doubtful, and why, or None if the file does not exist."""
    if path.is_symlink():
        return path.parent, "a link that leads nowhere"
    for place in (path, *path.parents):
        try:
            with os.scandir(place) as entries:
                return (place, "the folder is empty") if next(entries, None) is None else None
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return place.parent if place == path else place, str(error.strerror)
    return None


def kept_line(missing: Missing, removal: str) -> str:
    """Explain that documents are kept, why, and how to proceed."""
    place = printable(os.path.relpath(missing.place))
    return (
        f"kept  {place}  {counted(len(missing.documents), 'document')} not found there ({missing.doubt}). If a disk is not "
        f"mounted, mount it; if they no longer exist, run: {removal}. Then add again."
    )
