"""A world that does nothing but write down what faults do to it."""

from types import SimpleNamespace

import trio

from agentrail.testing.simulation.log import LifeLog


class Noted:
    """Writes down each call of a method, and each change of a field."""

    def __init__(self, calls, name, **fields):
        self.__dict__.update(calls=calls, name=name, **fields)

    def __getattr__(self, method):
        def note(*args, **options):
            self.calls.append((f"{self.name}.{method}", *args, *options.items()))

        return note

    def __setattr__(self, field, value):
        self.calls.append((f"{self.name}.{field}", value))


class ToyNode:
    def __init__(self, index):
        self.place = f"node-{index}"
        self.down = trio.Event()


class ToyWorld:
    """Nodes that go down and come up at once; all else is in `calls`."""

    def __init__(self, nodes=3, clients=("ann",)):
        self.log = LifeLog()
        self.calls = []
        self.network = Noted(self.calls, "network")
        self.store = Noted(self.calls, "store")
        self.nodes = [ToyNode(index) for index in range(nodes)]
        self.machines = dict.fromkeys(clients)

    def disk(self, index):
        files = {"sessions.db": SimpleNamespace(durable=b"12"), "empty": SimpleNamespace(durable=b"")}
        return Noted(self.calls, f"disk {index}", files=files)

    def clock(self, index):
        return Noted(self.calls, f"clock {index}")

    def kill(self, index):
        self.calls.append(("kill", index))
        self.nodes[index].down.set()

    def stop(self, index, seconds):
        self.calls.append(("stop", index, seconds))

    def leave(self, index):
        self.calls.append(("leave", index))

    def restart(self, index):
        self.calls.append(("restart", index, trio.current_time()))
        self.nodes[index] = ToyNode(index)
