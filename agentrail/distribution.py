"""The distribution's name, and the command that installs it with extras.

The package index has another project named `agentrail`. While `PUBLISHED` is false, a hint installs from where this package came, recorded in `direct_url.json`
(PEP 610).
"""

import json
import shlex
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

NAME: Final = "agentrail"
"""Name of the distribution, in `pyproject.toml` and in its metadata."""

PUBLISHED: Final = False
"""Whether the package index has this project under `NAME`."""

IMPORT_NAME: Final = "agentrail"
"""Name of the package, and of another project on the package index."""

_FOLDER: Final = Path(__file__).resolve().parent
_OWN_FILE: Final = f"{IMPORT_NAME}/{Path(__file__).name}"


class ForeignDistribution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An installed `agentrail` that this package does not belong to, with its one-line summary."""

    version: str
    folder: str
    summary: str


def install_command(*extras: str, flags: str = "", editable: bool = True) -> str:
    pip = f"pip install {flags} " if flags else "pip install "
    chosen = f"[{','.join(extras)}]" if extras else ""
    if PUBLISHED:
        return f"{pip}{_quoted(NAME + chosen)}"
    origin = _origin()
    if origin is None:
        return f"{pip}-e {_quoted('.' + chosen)} in a checkout of agentrail"
    if isinstance(origin, str):
        return f"{pip}{_quoted(f'{NAME}{chosen} @ {origin}')}"
    is_checkout = origin.suffix != ".whl" and editable
    return f"{pip}{'-e ' if is_checkout else ''}{_quoted(f'{origin}{chosen}')}"


def find_foreign() -> tuple[ForeignDistribution, ...]:
    found = [one for name in sorted({IMPORT_NAME, NAME}) for one in metadata.distributions(name=name)]
    return tuple(
        ForeignDistribution(
            version=one.version,
            folder=str(one.locate_file("")),
            summary=one.metadata["Summary"] or "",
        )
        for one in found
        if not _is_own(one)
    )


def _origin() -> Path | str | None:
    if (_FOLDER.parent / "pyproject.toml").is_file():
        return _FOLDER.parent
    own = next((one for one in metadata.distributions(name=NAME) if _is_own(one)), None)
    recorded = {} if own is None else _direct_url(own)
    url = recorded.get("url")
    if not isinstance(url, str):
        return None
    vcs = recorded.get("vcs_info")
    if isinstance(vcs, dict):
        return f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}".rstrip("@")
    path = _local_path(url)
    if path is None:
        return url
    return path if path.exists() else None


def _is_own(found: metadata.Distribution) -> bool:
    recorded = _direct_url(found)
    url, how = recorded.get("url"), recorded.get("dir_info")
    if isinstance(url, str) and isinstance(how, dict) and how.get("editable"):
        checkout = _local_path(url)
        return checkout is not None and checkout.resolve() == _FOLDER.parent
    has_file = any(file.as_posix() == _OWN_FILE for file in found.files or ())
    return has_file and Path(str(found.locate_file(_OWN_FILE))).resolve().parent == _FOLDER


def _direct_url(found: metadata.Distribution) -> dict[str, object]:
    try:
        recorded = json.loads(found.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return recorded if isinstance(recorded, dict) else {}


def _local_path(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _quoted(target: str) -> str:
    if target.isascii() and not set(target) & set("[]$`\"\\'!&;() \t\n"):
        return target
    return shlex.quote(target) if set(target) & set('$`"\\!\n') else f'"{target}"'
