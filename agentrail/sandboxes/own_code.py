"""The code that runs in this very process, where it lies below the root of a sandbox: the interpreter, its environment, us, named modules.

An agent that could write there would run outside, with all rights of the user: Python imports much of a program while it runs.
So it is written by no tool and by no command, like the protected names; and a root that is such a directory is refused.
"""

import sys
import sysconfig
from pathlib import Path
from typing import Final

from attrs import frozen

from agentrail.errors import SandboxError
from agentrail.named_modules import NAMED_MODULES
from agentrail.sandboxes.programs import find_interpreter, find_links

_MAX_NAMED: Final = 64
"""How many files of named modules are protected one by one; of more the packages are, whole."""
_OF_AN_ENVIRONMENT: Final = ("bin", "lib", "lib64", "include", "pyvenv.cfg")


@frozen
class Place:
    """Where code lies.

    Attributes:
        path: As this process calls it; links are not resolved.
        real: With all links resolved, as they were when this was imported.
        is_whole: Whether all that is in it is code; a root inside of it is refused.
    """

    path: Path
    real: Path
    is_whole: bool


def _list_places() -> tuple[Place, ...]:
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    prefixes = {
        Path(prefix) for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    }
    programs = {Path(sysconfig.get_path("scripts")), Path(sys.executable), Path(find_interpreter())}
    package = Path(__file__).resolve().parents[1]
    return (
        *(Place(path, path.resolve(), is_whole=True) for path in sorted({package, *libraries})),
        *(Place(path, path.resolve(), is_whole=False) for path in sorted(prefixes | programs)),
    )


_PLACES: Final = _list_places()


def find_own_code(root: Path) -> tuple[tuple[str, ...], ...]:
    """List the paths below a root, as names from there, at which the code of this process lies.

    Args:
        root: Without links in it.

    Raises:
        SandboxError: Your move: the root lies in that code, or a link below the root leads to it, which could be replaced.
    """
    if root == Path("/"):  # for who has asked for it; nothing confines anything there
        return ()
    found: set[tuple[str, ...]] = set()
    for place in _PLACES:
        real = place.real
        if real == root:
            if place.is_whole:
                raise _refuse(root, f"it is {place.path}, from which this program runs")
            found.update((name,) for name in _OF_AN_ENVIRONMENT if root.joinpath(name).exists())
        elif real.is_relative_to(root):
            found.add(real.relative_to(root).parts)
        elif place.is_whole and root.is_relative_to(real):
            raise _refuse(root, f"it lies in {place.path}, from which this program runs")
    found |= _named_below(root)
    kept = tuple(
        sorted(names for names in found if not any(names[:n] in found for n in range(1, len(names))))
    )
    _refuse_links(root, kept)
    return kept


def list_own_places() -> tuple[tuple[str, ...], ...]:
    """List all paths at which the code of this process lies, as names from `/` on; without those that others share."""
    places = {place.real for place in _PLACES if place.is_whole}
    if sys.prefix != sys.base_prefix:  # an environment, which is for this program
        places.add(Path(sys.prefix).resolve())
    places |= {path.resolve() for path in NAMED_MODULES.files()}
    return tuple(sorted(place.parts for place in places))


def _named_below(root: Path) -> set[tuple[str, ...]]:
    real = (path.resolve() for path in NAMED_MODULES.files())
    names = {path.relative_to(root).parts for path in real if path.is_relative_to(root)}
    return names if len(names) <= _MAX_NAMED else {one[:1] for one in names}


def _refuse_links(root: Path, kept: tuple[tuple[str, ...], ...]) -> None:
    for place in _PLACES:
        for link in find_links(place.path, root):
            names = link.relative_to(root).parts
            if not any(names[: len(one)] == one and len(names) > len(one) for one in kept):
                raise _refuse(root, f"this program runs from {place.path} through the link {link}")


def _refuse(root: Path, why: str) -> SandboxError:
    message = (
        f"the root {str(root)!r} cannot be confined: {why}, so that what is written there would run outside of the "
        "sandbox. Name another directory, or install agentrail elsewhere"
    )
    return SandboxError(message)
