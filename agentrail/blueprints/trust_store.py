"""The trust list on disk, which a project cannot write."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from agentrail.blueprints.config_discovery import USER_FOLDER, FoundFiles, read_bytes
from agentrail.config.trust import Digests, TrustList, decode_trust, encode_trust, file_digest
from agentrail.errors import OptionError
from agentrail.private_paths import changing_files_of, write_private

TRUST_NAME: Final = "trust.json"
_MAX_BYTES: Final = 8 * 1024 * 1024


def digests_of(files: FoundFiles) -> Digests:
    code = {
        _key_of(one.path, files.directory): file_digest(one.data) for one in files.code if one.path.suffix
    }
    return {**code, **{one.key: file_digest(one.data) for one in files.project}}


def is_listed(files: FoundFiles, environ: Mapping[str, str]) -> bool:
    """Return whether a project's directory is trusted, with current or earlier files."""
    return files.directory is not None and str(files.directory.resolve()) in read_trust(environ).directories


def _key_of(path: Path, directory: Path | None) -> str:
    inside = directory is not None and path.is_relative_to(directory)
    return path.relative_to(directory).as_posix() if inside and directory is not None else str(path)


def is_trusted(files: FoundFiles, environ: Mapping[str, str]) -> bool:
    if files.directory is None:
        return False
    return read_trust(environ).trusts(str(files.directory.resolve()), digests_of(files))


def read_trust(environ: Mapping[str, str]) -> TrustList:
    path = _path_of(environ)
    if path is None or not path.exists():
        return TrustList()
    try:
        text = read_bytes(path, most=_MAX_BYTES).decode()
    except UnicodeDecodeError:
        text = ""
    return decode_trust(text, name=str(path))


@contextmanager
def changing_files(environ: Mapping[str, str]) -> Iterator[None]:
    """Lock the trust list and the rule files against other processes."""
    path = _path_of(environ)
    with ExitStack() as locks:
        try:
            if path is not None:
                locks.enter_context(changing_files_of(path.parent))
        except OSError as error:
            raise OptionError([f"{error.filename} cannot be written: {error.strerror}"]) from error
        yield


def write_trust(trusted: TrustList, environ: Mapping[str, str]) -> Path:
    path = _path_of(environ)
    if path is None:
        raise OptionError(["HOME is not set, and trust is stored in the home directory: set HOME"])
    try:
        write_private(path, encode_trust(trusted).encode())
    except OSError as error:
        raise OptionError([f"{path} cannot be written: {error.strerror}"]) from error
    return path


def _path_of(environ: Mapping[str, str]) -> Path | None:
    return Path(environ["HOME"]) / USER_FOLDER / TRUST_NAME if environ.get("HOME") else None
