r"""Configuration files, read: text becomes frozen values with the file and line of each, or all that is wrong with it at once. Pure.

- `forms.py`: what a file may hold. `reading.py`: one file, read. `places.py`: where in a text each value stands.
- `yaml_head.py`: the head of a Markdown file. `structuring.py`: values of the right types, or faults. `keys.py`: what looks like a key.
- `settings.py`: several files joined: who says what, the project before the user. `narrowing.py`: what is left of a file that is not trusted.
- `trust.py`: which files a user trusts, as text and back.

No file is opened here and nothing is imported by name; `agentrail.blueprints` does both.

    >>> from agentrail.config.reading import read_toml
    >>> read = read_toml("agentrail.toml", 'version = 1\n[agents.scout]\nmax_turn = 3\n')
    >>> print(*read.faults)
    agentrail.toml:3: agents.scout.max_turn: there is no such key, did you mean 'max_turns'
"""
