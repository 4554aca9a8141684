"""`python -m agentrail` is the command `agentrail`."""

from agentrail.cli import main

if __name__ == "__main__":
    main()
