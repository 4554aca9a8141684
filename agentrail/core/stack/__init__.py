"""Plugins: loading, ordering, calling and changing them, and the outcome of a run."""
