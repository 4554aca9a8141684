"""The linters that read the same modules, in one process, which parses each module once: `python -m scripts.lint_sources`."""

import atexit
import gc
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final

LINTERS: Final[Mapping[str, Sequence[object]]] = MappingProxyType(
    {
        "longest": (),  # first, because its walks count calls: what others import is not there yet
        "trio_habits": ([],),
        "prose": ([],),
        "repository_rules": (),
        "generate_docs": (["--check"],),
    }
)
"""Modules of `scripts`, and the arguments of their `main`."""


def main() -> int:
    """Run all of them, each imported when its turn comes; 1 if one finds something."""
    status: int = max([import_module(f"scripts.{name}").main(*given) for name, given in LINTERS.items()])
    return status


if __name__ == "__main__":
    gc.disable()  # the trees have no cycles
    atexit.register(gc.freeze)  # and to free them takes seconds
    sys.exit(main())
