"""Web access: requests that cannot reach private addresses, and safe reading of untrusted pages."""
