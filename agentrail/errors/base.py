"""Base classes of all errors, never raised directly."""


class AgentrailError(Exception):
    """Base class of every error that agentrail raises on purpose.

    Attributes:
        code: snake_case, unique per class, stable, for programs without the class.
    """

    code = "agentrail_error"


class YourMove(AgentrailError):
    """The caller can fix it. The message says what was expected, what was given, and what to do."""

    code = "your_move"
