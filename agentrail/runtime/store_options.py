"""How a supervisor keeps sessions in its store: one value of what `open_supervisor` is told about that. Nothing is checked here."""

from attrs import frozen

from agentrail.runtime.hibernation import Resume, Revive
from agentrail.runtime.keeping import STORE_PATIENCE_SECONDS, OnDrift
from agentrail.runtime.retention import KeepLimits


@frozen(kw_only=True)
class StoreOptions:
    """How sessions are kept.

    Attributes:
        patience: How many seconds the store may take for a commit before it counts as unavailable.
        resume: Which stored sessions come back before the body begins: those that had work, all, or none.
        revive: Gives what each of them needs of its code.
        on_drift: What becomes of a stored session that the code here folds to other operations: it stays as it is (`park`), or continues.
        keep: For how long, and how much of them is kept; None for all.
        hibernate_after: How many seconds a session is idle before it sleeps; None for never, and where there is no store.
    """

    patience: float = STORE_PATIENCE_SECONDS
    resume: Resume = "none"
    revive: Revive | None = None
    on_drift: OnDrift = "park"
    keep: KeepLimits | None = None
    hibernate_after: float | None = None


USUAL_OPTIONS = StoreOptions()
"""Those of a supervisor that is told nothing about it."""
