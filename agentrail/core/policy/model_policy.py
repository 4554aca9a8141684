"""Decisions of a session about its model requests: `ModelPolicy`.

This module contains no logic and no wire format.
"""

from attrs import frozen

from agentrail.core.policy.budget import Price
from agentrail.core.policy.patience import StallPolicy


@frozen(kw_only=True)
class ModelPolicy:
    """Time limits and retries of a model, and facts about it that no table contains.

    Attributes:
        stall_policy: Treatment of a silent stream: the request ends (`abort`), is retried (`retry`),
            or continues (`report`).
        stall_seconds: How long it may be silent before that.
        max_retries: How often a request is retried with this model. None for the session's own number.
        context_window: In tokens. None for the known value of the model.
        price: None for the known price of the model.
    """

    timeout_seconds: float = 600.0
    stall_policy: StallPolicy = "abort"
    stall_seconds: float = 120.0
    max_retries: int | None = None
    context_window: int | None = None
    price: Price | None = None
