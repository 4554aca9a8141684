"""The screen of `agentrail chat` in a terminal: scrollback is printed once, and a few rows below it are redrawn.

| module | responsibility |
|---|---|
| `inks`, `markdown_looks` | the look of a block, through rich: the only place that makes escape sequences |
| `picture` | printed rows, the redrawn area and the status line: events in, rows out |
| `asking`, `diffs` | the small dialogue about a pending call, and the call's changes |
| `keys` | the meaning of Enter, Ctrl-C and a paste |
| `completing` | completions of a half-typed word |
| `helping`, `editor` | prompt_toolkit in a thread: completion, history and keys |
| `live_view`, `chat_view` | the shell: the session's events in Trio, handed to the editor, and log lines held back |

All but the last two rows are pure functions and values, tested without a terminal. Nothing here is imported before
there is one. `agentrail.cli.markdown_blocks` finds the finished blocks in a model's streamed Markdown.
"""
