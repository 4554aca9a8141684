"""What goes into a session and what comes out: signals and effects, hooks and actions, requests to models."""
