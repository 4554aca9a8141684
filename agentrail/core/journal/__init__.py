"""The journal of a session: what is recorded, how records are chained, and what they fold to. Pure; no store enters this drawer."""
