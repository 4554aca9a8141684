"""Signals, events and hook events as JSON and back."""
