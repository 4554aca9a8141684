"""A result of `agentrail doctor`. The checks are elsewhere."""

from typing import Literal, TypeAlias

from attrs import frozen

CheckVerdict: TypeAlias = Literal["good", "absent", "bad"]


@frozen(kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        verdict: `good`, `absent` (a run works without it), or `bad` (a run would fail).
        text: The result. Never the value of a variable.
        remedy: How to fix it, if possible.
    """

    name: str
    verdict: CheckVerdict
    text: str
    remedy: str | None = None
