"""Stores that say that records are durable and do not keep their word, for the loop that kills them."""

import msgspec

from agentrail.stores.sqlite import SqliteStore

replace = msgspec.structs.replace


class LatePromise(SqliteStore):
    """Says that a batch is durable, and writes it with the next one."""

    waiting = ()

    def append(self, batch):
        """Write the last batch, and keep this one for later."""
        due, self.waiting = self.waiting, tuple(batch)
        super().append(due)
        return (None,) * len(batch)

    def get(self, *key):  # type: ignore[misc]  # an honest store has one query for it
        """Write first: so that all but a kill finds it."""
        self.append(())
        return super().get(*key)


class Halves(SqliteStore):
    """Writes one record at a time."""

    def append(self, batch):
        """Write each record by itself."""
        for one in batch:
            for record in one.records:
                super().append([replace(one, records=(record,))])
        return (None,) * len(batch)


def open_late_promise(folder):
    """Open one."""
    return LatePromise(folder / "sessions.db")


def open_halves(folder):
    """Open one."""
    return Halves(folder / "sessions.db")
