"""The values of conversations and tools, and the validation of arguments. Independent of sessions."""
