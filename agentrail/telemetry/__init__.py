"""Readers of committed events and journals: no session waits for them, or notices that they fail."""
