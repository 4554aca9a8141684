"""What every error of agentrail has: a code that stays. No error that is raised as such is defined here."""


class AgentrailError(Exception):
    """Whatever agentrail raises on purpose derives from this.

    Attributes:
        code: snake_case, one for each class, and never changed: to branch on where the class does not travel.
    """

    code = "agentrail_error"


class YourMove(AgentrailError):
    """The caller can put it right: the message says what was expected, what came, and what to do."""

    code = "your_move"
