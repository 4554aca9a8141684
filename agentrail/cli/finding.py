"""One thing that `agentrail doctor` looked at. Nothing is looked at here."""

from typing import Literal, TypeAlias

from attrs import frozen

CheckVerdict: TypeAlias = Literal["good", "absent", "bad"]


@frozen(kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        verdict: `good`; `absent`, which a run can do without; `bad`, with which a run would fail.
        text: What was found. Never the value of a variable.
        remedy: What to do, where there is something to do.
    """

    name: str
    verdict: CheckVerdict
    text: str
    remedy: str | None = None
