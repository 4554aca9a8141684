"""Runs the text of a program, in the process that `forked.py` made for it: `python -m tests.program TEXT`, as `python -c TEXT` does."""

import sys

if __name__ == "__main__":
    exec(sys.argv.pop(1), {"__name__": "__main__"})  # noqa: S102 - a test wrote it
