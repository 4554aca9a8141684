"""Where journals are kept: adapters of the store port, one file each. No session enters this room, and no loop."""
