"""The distributed bugs that `scripts.planted` plants, each with the world in which it can show."""

from pathlib import Path
from typing import Final

from attrs import frozen

from tests.mutants import catalogue
from tests.simulation.planting import patch_of


@frozen
class PlantedBug:
    """A bug of `tests/mutants`, or of `planted/` next to this module.

    Attributes:
        file: Name of its patch, without the extension.
        world: World whose lives are lived with it. While there is no such world, the bug is not measured.
    """

    file: str
    world: str = "cluster"

    @property
    def path(self) -> Path:
        return patch_of(self.file)

    def read(self) -> catalogue.Mutant:
        """Read its patch."""
        return catalogue.parse(self.path.read_text(encoding="utf-8"))


PLANTED: Final = (
    PlantedBug("prompt-is-acknowledged-before-its-record-is-durable"),
    PlantedBug("event-is-published-before-its-record-is-durable"),
    PlantedBug("tool-runs-before-its-record-is-durable"),
    PlantedBug("an-old-owner-s-append-is-acknowledged"),
    PlantedBug("a-repeated-append-succeeds-after-a-take"),
    PlantedBug("a-take-writes-no-record"),
    PlantedBug("a-pause-counts-as-an-end"),
    PlantedBug("tree-is-taken-by-the-store-s-clock-alone"),
    PlantedBug("heartbeat-renews-trust"),
    PlantedBug("trust-is-dated-by-an-append"),
    PlantedBug("trust-is-dated-by-the-answer"),
    PlantedBug("gap-between-heartbeats-is-judged-by-one-clock"),
    PlantedBug("look-takes-a-tree-without-the-fence"),
    PlantedBug("deadline-follows-the-clock-of-the-node", "desk"),
    PlantedBug("abort-waits-for-the-store"),
    PlantedBug("snapshot-precedes-its-record", "drain"),
    PlantedBug("events-start-over-after-a-wake", "fleet"),
    PlantedBug("client-ids-are-forgotten-by-the-next-owner"),
    PlantedBug("held-work-is-not-taken-up-again"),
    PlantedBug("timers-are-not-set-again", "desk"),
    PlantedBug("begun-calls-are-lost-in-a-move", "drain"),
    PlantedBug("drain-drops-the-outbox", "drain"),
    PlantedBug("a-node-that-drains-is-reported-as-gone", "drain"),
    PlantedBug("a-release-overtakes-the-last-records", "drain"),
    PlantedBug("two-sessions-have-one-id"),
    PlantedBug("approved-call-runs-twice", "desk"),
    PlantedBug("a-take-forgets-an-approval", "desk"),
    PlantedBug("message-is-accepted-twice", "moves"),
    PlantedBug("a-relay-skips-one-number-at-a-move", "moves"),
    PlantedBug("a-relayed-number-is-not-noted", "moves"),
    PlantedBug("finished-call-runs-again"),
    PlantedBug("possibly-finished-call-runs-again", "drain"),
    PlantedBug("letter-is-lost-between-taking-and-a-deadline", "actors"),
    PlantedBug("answer-just-before-a-deadline-is-dropped", "actors"),
    PlantedBug("reader-parks-without-looking-again", "single"),
    PlantedBug("slot-is-registered-after-the-send", "single"),
    PlantedBug("reply-is-lost-between-check-and-park", "actors"),
    PlantedBug("a-failed-sync-is-only-repeated", "single"),
    PlantedBug("a-move-releases-before-its-last-append", "moves"),
    PlantedBug("a-child-is-delivered-twice", "tree"),
    PlantedBug("reservations-are-kept-per-node", "tree"),
    PlantedBug("a-second-decision-is-told-that-it-was-approved", "desk"),
    PlantedBug("an-abort-lets-tools-run-on"),
    PlantedBug("half-a-response-is-not-recorded"),
    PlantedBug("a-created-session-is-answered-with-an-error"),
)
