"""Plugins: how they are loaded and ordered, asked and changed, and what a run of them comes to."""
