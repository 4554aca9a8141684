"""The moves of a simulated life in mid-cycle, read from its log."""

from agentrail.testing.simulation.facts import Read, ReaderSubscribed, StoreCall
from agentrail.testing.simulation.gods_eye import GodsEye


def moves_of(lines):
    """Return the number of sessions that another node took with their unfinished work, and the silences of their readers.

    A silence is the time in seconds from the release to the reader's next event. A reader whose client was away or cut off is silent
    for that time, too.
    """
    eye, moves, silences = GodsEye(), 0, []
    released = {}  # by root: its node, when, whether it had work
    readers, silent = {}, {}
    for line in lines:
        facts = line.facts
        if isinstance(facts, StoreCall) and facts.name == "release" and facts.is_executed:
            root = facts.arguments["root"]
            journal = eye.journals.get(root)
            if journal is not None and journal.node == facts.arguments["node"]:
                released[root] = line.place, line.at, journal.is_working
        elif isinstance(facts, ReaderSubscribed):
            readers.setdefault(line.session, {})[facts.reader] = None
        elif isinstance(facts, Read):
            since = silent.pop((line.session, facts.reader), None)
            if since is not None:
                silences.append(line.at - since)
        eye.look(line)
        for taken in eye.taken if eye.line is line and isinstance(facts, StoreCall) else ():
            source, at, is_working = released.pop(taken.session, ("", 0.0, False))
            if is_working and source != eye.place_of(taken.session):
                moves += 1
                for reader in readers.get(taken.session, ()):
                    silent.setdefault((taken.session, reader), at)
    return moves, silences
