r"""Configuration files: text to frozen values with the file and line of each, or all faults at once. Pure.

- `schema.py`, `config_file.py`, `toml_positions.py`: the keys of a file, one file read, the line of each value.
- `settings.py`: several files merged, the project before the user. `trust_limits.py`: the restricted form of an
  untrusted file.

This package opens no file and imports nothing by name. `agentrail.blueprints` does both.

    >>> from agentrail.config.config_file import read_toml
    >>> read = read_toml("agentrail.toml", 'version = 1\n[agents.scout]\nmax_turn = 3\n')
    >>> print(*read.faults)
    agentrail.toml:3: agents.scout.max_turn: there is no such key, did you mean 'max_turns'
"""
