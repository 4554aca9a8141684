"""The screen of `agentrail chat` in a terminal: scrollback is printed once, and a few rows below it are redrawn.

All modules but `editor`, `editor_history`, `live_view` and `completion_sources` are pure, and tested
without a terminal. Nothing here is imported before there is one.
"""
