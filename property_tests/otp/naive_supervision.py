"""A supervisor as OTP has it: one that blocks while a child starts or stops. Lists and loops, nothing clever.

It is the model of the reducer in a world where every start and stop is answered at once, so that nothing can come in
between. `starts` and `stops` are the script of that world, as for the rig.
"""

from collections import deque
from typing import Any

from attrs import define, field

from agentrail.otp.exits import InitFailed, Killed, Normal, Shutdown

GAVE_UP = Shutdown("max_restart_intensity")
DOWN = Shutdown("auto_shutdown")


class Ended(Exception):
    """The supervisor ends in the middle of what it did."""


@define(eq=False)
class NaiveChild:
    """A child: what its spec says, and whether it is `running`, `stopped` or `restarting`."""

    name: object
    restart: str
    significant: bool
    brutal: bool
    status: str = "stopped"


@define
class NaiveSupervisor:
    """The whole state: what there is, and what happened so far."""

    strategy: str
    intensity: int
    auto_shutdown: str
    starts: dict[Any, Any]
    stops: dict[Any, Any]
    children: list[Any] = field(factory=list)
    times: list[float] = field(factory=list)
    mailbox: list[Any] = field(factory=list)
    retries: list[Any] = field(factory=list)
    log: list[str] = field(factory=list)
    reports: list[Any] = field(factory=list)
    ended: object = None
    now: float = 0.0

    # --- from outside

    def begin(self, children):
        """Start all, or none."""
        self.children = [] if self.strategy == "dynamic" else children
        with self.ending():
            for child in list(self.children):
                if not self.try_start(child):
                    if child.restart == "temporary":
                        self.children.remove(child)
                    self.end(InitFailed("child", cause=InitFailed("raised", None), child_id=child.name))

    def exits(self, *ends):
        """Find the exits of these children in the mailbox, each with its reason."""
        self.mailbox = [(child, reason) for child, reason in ends if child.status == "running"]
        with self.ending():
            while self.mailbox:
                self.exited(*self.mailbox.pop(0))

    def retry(self, child):
        """Find the retry of this child in the mailbox."""
        self.retries.remove(child)
        with self.ending():
            self.attempt(child)

    def start_child(self, child):
        """Add a child; `None` if the id is taken."""
        if self.ended is not None:
            return "SupervisorStopping"
        known = None if self.strategy == "dynamic" else self.find(child.name)
        if known is not None:
            return "AlreadyStarted" if known.status == "running" else "AlreadyPresent"
        self.children.append(child)
        if not self.try_start(child):
            self.children.remove(child)
            return "ChildStartFailed"
        return "Started"

    def undo_start(self, child, *, is_new):
        """Nobody took the answer: stop it, and forget what came with the call."""
        if child in self.children:
            self.stop(child)
        if child in self.children and is_new:
            self.children.remove(child)

    def restart_child(self, name):
        """Start a child that is stopped."""
        child = self.find_stopped(name)
        if isinstance(child, str):
            return child
        return "Started" if self.try_start(child) else "ChildStartFailed"

    def delete_child(self, name):
        """Take a spec away."""
        child = self.find_stopped(name)
        if isinstance(child, str):
            return child
        self.children.remove(child)
        return "NoneType"

    def terminate_child(self, child):
        """Stop a child and its retries."""
        if self.ended is not None:
            return "SupervisorStopping"
        if child not in self.children:
            return "ChildNotFound"
        self.stop(child)
        if child in self.children and child.status == "restarting":
            self.retries.remove(child)
            child.status = "stopped"
            if self.strategy == "dynamic":
                self.children.remove(child)
        return "NoneType"

    def stop_supervisor(self):
        """End."""
        with self.ending():
            self.end(Shutdown())

    # --- what OTP says

    def exited(self, child, reason):
        """Decide what follows from an exit."""
        clean = isinstance(reason, Normal | Shutdown)
        if child.restart == "permanent" or not clean:
            self.reports.append(("child_terminated", child.name))
        if child.restart == "permanent" or (child.restart == "transient" and not clean):
            child.status = "restarting"
            waiting = [self.children.index(other) for other in self.retries]
            if (self.strategy == "one_for_all" and waiting) or (
                self.strategy == "rest_for_one" and waiting and self.children.index(child) >= waiting[0]
            ):
                child.status = "stopped"
            else:
                self.count(child)
                self.attempt(child)
            return
        child.status = "stopped"
        if child.restart == "temporary" or self.strategy == "dynamic":
            self.children.remove(child)
        left = [other for other in self.children if other.significant and other.status != "stopped"]
        if child.significant and (
            self.auto_shutdown == "any_significant" or (self.auto_shutdown == "all_significant" and not left)
        ):
            self.end(DOWN)

    def count(self, child):
        """Count a restart; give up if it is one too many."""
        self.times = [time for time in self.times if self.now - time <= 5.0] + [self.now]
        if len(self.times) > self.intensity:
            self.reports.append(("shutdown", child.name))
            child.status = "stopped"
            self.end(GAVE_UP)

    def attempt(self, child):
        """Start a child again, with its group."""
        group = [child]
        if self.strategy == "one_for_all":
            group = list(self.children)
        elif self.strategy == "rest_for_one":
            group = self.children[self.children.index(child) :]
        for other in reversed(group):
            if other in self.retries:
                self.retries.remove(other)
                other.status = "stopped"
            if other is not child:
                self.stop(other)
        for other in group:
            if other in self.children and not self.try_start(other):
                other.status = "restarting"
                if other is not child and child.status == "restarting":
                    child.status = "stopped"
                self.count(other)
                if self.strategy == "one_for_all":
                    for started in reversed(group):
                        if started is not other:
                            self.stop(started)
                self.retries.append(other)
                return

    # --- starting and stopping one

    def try_start(self, child):
        """Start a child and wait for it; tell whether that is no failure."""
        script = self.starts.get(child.name, deque(["up"]))
        outcome = script.popleft() if len(script) > 1 else script[0]
        self.log.append(f"start {child.name}")
        if outcome == "fail":
            self.reports.append(("start_error", child.name))
            return False
        child.status = "running" if outcome == "up" else "stopped"
        if outcome == "ignore" and (child.restart == "temporary" or self.strategy == "dynamic"):
            self.children.remove(child)
        return True

    def stop(self, child):
        """Stop a child and wait for it; one that has crashed in the meantime is down already."""
        if child.status != "running":
            return
        found = [reason for other, reason in self.mailbox if other is child]
        self.mailbox = [(other, reason) for other, reason in self.mailbox if other is not child]
        if found:
            reason = found[0]
        else:
            self.log.append(f"{'kill' if child.brutal else 'stop'} {child.name}")
            reason = self.stops.get(child.name, Killed() if child.brutal else Shutdown())
        expected = (
            reason == Shutdown()
            or (reason == Killed() and child.brutal)
            or (isinstance(reason, Normal | Shutdown) and child.restart != "permanent")
        )
        if not expected:
            self.reports.append(("shutdown_error", child.name))
        child.status = "stopped"
        if child.restart == "temporary" or self.strategy == "dynamic":
            self.children.remove(child)

    def end(self, reason):
        """Stop all, in reverse, and end."""
        for child in reversed(list(self.children)):
            self.stop(child)
        for child in list(self.children):
            child.status = "stopped"
            if self.strategy == "dynamic":
                self.children.remove(child)
        self.retries = []
        self.mailbox = []
        self.ended = reason
        raise Ended

    # --- small things

    def ending(self):
        """Return a block that the end of the supervisor leaves."""
        return _Until()

    def find(self, name):
        """Return the child of this id."""
        return next((child for child in self.children if child.name == name), None)

    def find_stopped(self, name):
        """Return the child of this id if it is stopped, else the name of the refusal."""
        child = self.find(name)
        if self.ended is not None:
            return "SupervisorStopping"
        if self.strategy == "dynamic":
            return "WrongChildKey"
        if child is None:
            return "ChildNotFound"
        if child.status != "stopped":
            return "ChildRunning" if child.status == "running" else "ChildRestarting"
        return child


class _Until:
    def __enter__(self):
        pass

    def __exit__(self, kind, error, traceback):
        return isinstance(error, Ended)
