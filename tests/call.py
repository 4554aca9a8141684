"""Calls a function, in the process that `forked.py` made for it: `python -m tests.call MODULE FUNCTION {'its': 'arguments'}`."""

import ast
import inspect
import sys
from importlib import import_module


def main(module: str, name: str, arguments: str) -> None:
    """Call it; of a test that runs itself in a process, what it is in there."""
    inspect.unwrap(getattr(import_module(module), name))(**ast.literal_eval(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
