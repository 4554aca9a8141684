"""Calls shared by routes and sockets: from a host, a principal and decoded arguments to a wire value."""
