r"""Configuration files: text to frozen values with places, or all faults at once. Opens and imports nothing.

>>> from agentrail.config.config_file import read_toml
>>> read = read_toml("agentrail.toml", 'version = 1\n[agents.scout]\nmax_turn = 3\n')
>>> print(*read.faults)
agentrail.toml:3: agents.scout.max_turn: unknown key, did you mean 'max_turns'
"""
