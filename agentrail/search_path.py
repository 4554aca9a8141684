"""Keeps commands from importing code of the current directory, which would run with all keys.

Runs before the path is cleaned, so it imports only modules of the interpreter.
"""

import os
import sys

LEFT_OUT: list[str] = []
"""The removed entries. Named modules are found there, by their files. See `named_modules.py`."""

_INSTALLED = ("site-packages", "dist-packages")


def leave_out_current() -> None:
    """Remove the current directory and those in it from `sys.path`, except installed packages and the standard library."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109 - pathlib is not part of the interpreter
    except OSError:  # it was removed, and nothing can be imported from it
        return
    left = [place for place in sys.path if is_source_in(place, here)]
    sys.path[:] = [place for place in sys.path if place not in left]
    LEFT_OUT.extend(place or here for place in left)


def is_source_in(place: str, directory: str) -> bool:
    """Whether a path lies in a directory without links, and is neither installed nor standard library."""
    real = os.path.realpath(place or ".")
    library = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120 - as above
    if real == library or real.startswith(library + os.sep):
        return False
    inside = real == directory or real.startswith(directory.rstrip(os.sep) + os.sep)
    return inside and not any(f"{os.sep}{name}{os.sep}" in f"{real}{os.sep}" for name in _INSTALLED)
