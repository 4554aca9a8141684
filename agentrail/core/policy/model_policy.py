"""What a session decides by when it talks to a model: `ModelPolicy`. No decision enters this file, and no wire format.

It is written down among the options of a provider, because that is where people look for it, and read by the session,
because a provider decides nothing. So it is a value that both know.
"""

from attrs import frozen

from agentrail.core.policy.budget import Price
from agentrail.core.policy.patience import StallPolicy


@frozen(kw_only=True)
class ModelPolicy:
    """How long to wait for a model, how often to try again, and what is known of it that no table says.

    Attributes:
        timeout_seconds: Until the first chunk.
        stall_policy: What becomes of a stream that went silent: the request ends (`abort`), is tried again (`retry`),
            or goes on (`report`).
        stall_seconds: How long it may be silent before that.
        max_retries: How often a request is tried again at this model; None for what the session says.
        context_window: In tokens; None for what is known of the model.
        price: None for what is known of the model.
    """

    timeout_seconds: float = 600.0
    stall_policy: StallPolicy = "abort"
    stall_seconds: float = 120.0
    max_retries: int | None = None
    context_window: int | None = None
    price: Price | None = None
