r"""Configuration files: text to frozen values with the file and line of each, or all faults at once. Pure.

- `forms.py`: schema of a file. `reading.py`: reading one file. `places.py`: line numbers of the values in a text.
- `yaml_head.py`: front matter of a Markdown file. `structuring.py`: typed values, or faults. `keys.py`: detection of
  keys.
- `settings.py`: several files merged, the project before the user. `narrowing.py`: the restricted form of an untrusted
  file.
- `trust.py`: the files that a user trusts, encoded and decoded.

This package opens no file and imports nothing by name. `agentrail.blueprints` does both.

    >>> from agentrail.config.reading import read_toml
    >>> read = read_toml("agentrail.toml", 'version = 1\n[agents.scout]\nmax_turn = 3\n')
    >>> print(*read.faults)
    agentrail.toml:3: agents.scout.max_turn: there is no such key, did you mean 'max_turns'
"""
