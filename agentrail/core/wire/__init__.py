"""JSON encoding and decoding of signals, events and hook events."""
