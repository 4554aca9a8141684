"""Protocols over standard input and output, for the program that started this one. Imports no HTTP server."""
