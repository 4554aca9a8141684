"""Past events of stored sessions, read by several threads at once."""

from agentrail.abc.store import Standing, StoredSession
from agentrail.core.journal import rewound_events
from agentrail.core.journal.record import REWOUND, Draft, RewoundBody, Tail, encode_body, sealed
from agentrail.messages import SessionId
from agentrail.runtime.event_history import PastEvents


class Records:
    """A store of one journal: two rewinds, from record 5 to 2 and from record 8 to 6."""

    def __init__(self):
        targets = {5: 2, 8: 6}
        drafts = [
            Draft(at_ms=1, kind=REWOUND, body=encode_body(RewoundBody(number=targets[number])), events=number)
            if number in targets
            else Draft(at_ms=1, kind="began", body=b"{}", events=number)
            for number in range(1, 11)
        ]
        self.end = len(drafts)
        self._records, _ = sealed(drafts, Tail(), scope="", session=SessionId("s-1"))

    def read(self, _scope, _session, after, limit):
        return self._records[: self.end][after : after + limit]

    def row(self):
        session = SessionId("s-1")
        return StoredSession(
            scope="",
            session=session,
            root=session,
            parent="",
            forked_from=None,
            node="",
            opened_at_ms=1,
            written_at_ms=1,
            first_seq=1,
            tail=Tail(seq=self.end),
            events=10,
            standing=Standing(),
        )


def test_a_reader_is_not_told_what_another_one_has_read_so_far(monkeypatch):
    """The other takes back the second rewind once more; the first would be told that only one was made."""
    store, told, really = Records(), [], rewound_events.decode_rewound
    past, store.end = PastEvents(store), 1
    past.undone(store.row())  # known to both
    store.end = 10

    def decode_while_another_reads(body):
        rewound = really(body)
        if rewound.number == 6 and not told:
            told.append(None)
            told.append(past.undone(store.row()))
        return rewound

    monkeypatch.setattr(rewound_events, "decode_rewound", decode_while_another_reads)
    told.append(past.undone(store.row()))
    assert told[1] == told[2] == past.undone(store.row()) == ((3, 5), (7, 8))
