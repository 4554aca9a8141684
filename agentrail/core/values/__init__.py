"""What conversations and tools are made of, and how arguments are validated. Knows nothing of sessions."""
