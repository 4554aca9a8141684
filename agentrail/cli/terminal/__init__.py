"""The screen of `agentrail chat` in a terminal: what scrolls up is printed once, and below it a few rows are drawn anew.

| module | what it decides |
|---|---|
| `blocks` | where the Markdown of a model that still writes has finished blocks |
| `inks` | how a block looks, through rich: the only place that makes escape sequences |
| `picture` | what is printed for good, and what is drawn below: events in, rows out |
| `working` | the line that says what is done, since when and for how much |
| `asking` | the small dialogue about a call that waits |
| `keys` | what Enter, Ctrl-C and a paste mean |
| `completing` | what a half-typed word may become |
| `held_errors` | where lines of the log are kept that would stand in the middle of all this |
| `helping`, `editor` | prompt_toolkit in a thread: what it completes and remembers, and what keys do |
| `live_view`, `chat_view` | the shell: the session's events in Trio, handed to the editor |

All but the last two rows are plain functions and values, tested without a terminal. Nothing here is imported before there is one.
"""
