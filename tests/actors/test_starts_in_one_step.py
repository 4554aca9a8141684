"""A worker that does not report itself is up when it is started: one step of its supervisor, and the same order as ever.

Trio draws the order in which tasks have their turn, so what would be wrong every other time is tried many times.
"""

from agentrail.otp.supervision_types import ChildCounts

TIMES = 40
NOTHING = ChildCounts(specs=0, active=0, supervisors=0, workers=0)
