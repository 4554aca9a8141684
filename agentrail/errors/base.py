"""Base classes of all errors. Each error has a stable code. Neither class here is raised directly."""


class AgentrailError(Exception):
    """Base class of every error that agentrail raises on purpose.

    Attributes:
        code: snake_case, unique per class, never changed. Branch on it where the class is not available, such as over a
            network.
    """

    code = "agentrail_error"


class YourMove(AgentrailError):
    """The caller can fix it. The message says what was expected, what was given, and what to do."""

    code = "your_move"
