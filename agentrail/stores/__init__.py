"""Adapters of the store port, one module each. This package contains no session logic and no event loop."""
