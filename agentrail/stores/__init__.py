"""Adapters of the store port, one module each, without session logic."""
