"""Routes of third-party protocols, one module each, with the checks of every other call."""
