"""The interface of a session: signals and effects, hooks and actions, requests to models."""
