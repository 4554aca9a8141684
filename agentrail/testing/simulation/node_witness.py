"""The witness of a node's end without files: what the product locks on a disk is an entry of the simulated computer."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from agentrail import outside
from agentrail.runtime import persistence
from agentrail.runtime.witness import Witness
from agentrail.testing.seams import wrapped
from agentrail.testing.simulation.machine import NodeMachine


def simulated_witnesses() -> AbstractContextManager[None]:
    """Let each node keep its witness on its own computer."""
    return wrapped([(persistence, "Witness", lambda _: SimulatedWitness)])


class SimulatedWitness(Witness):
    """An entry in `NodeMachine.witnesses`. As the kernel does, a computer frees its lock when the process ends, and only then."""

    def __init__(self, directory: Path, node: str) -> None:
        """Create the witness of the current machine. Nothing is opened."""
        super().__init__(directory, node)
        machine = outside.current()
        assert isinstance(machine, NodeMachine)
        self._machine = machine

    def find_ended(self) -> tuple[str, ...]:
        """See `Witness`. A stopped node keeps its lock."""
        return tuple(node for node, owner in self._machine.witnesses.items() if owner.has_ended)

    def forget(self, nodes: Iterable[str]) -> None:
        """See `Witness`."""
        for node in nodes:
            self._machine.witnesses.pop(node, None)

    def open(self) -> None:
        """See `Witness`. A process that was killed meanwhile opens nothing."""
        if not self._machine.has_ended:
            self._machine.witnesses[self._node] = self._machine

    def close(self, *, was_reported: bool) -> None:
        """See `Witness`."""
        if was_reported and not self._machine.has_ended:
            self._machine.witnesses.pop(self._node, None)
