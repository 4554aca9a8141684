"""A call that brings the handle of what it starts: one step decides what two would, in the same order."""

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec import structs

from agentrail.otp.supervision import step_supervisor
from agentrail.otp.supervision_types import NO_CALLER, InstanceStarted, StartChild, SupervisorRequest
from property_tests.otp.test_supervision_properties import Shell, shown


class Offering(Shell):
    """The same shell; some of its calls bring a handle."""

    offers = False

    @rule(offers=st.booleans())
    def handles_are_offered(self, offers):
        """From now on, or not any more."""
        self.offers = offers

    def ask(self, call, path=()):
        """Call the supervisor; with a handle, if that is what is done now."""
        if not self.offers:
            super().ask(call, path)
            return
        request_id = len(self.asked) + 1
        self.asked[request_id] = call
        self.handles += 1
        self.send_offer(
            SupervisorRequest(request_id, path, call, self.handles, at_seconds=self.now, draw=0.5)
        )

    def send_offer(self, signal):
        """Take the step. Whether a caller waits for it or not, the steps without a handle come to the same."""
        for request_id in (signal.request_id, NO_CALLER):
            self.compare(self.state, structs.replace(signal, request_id=request_id))
        self.send(SupervisorRequest, signal.request_id, signal.caller_path, signal.call, signal.handle)

    def compare(self, before, signal):
        """Take the step, and those that there were without a handle."""
        after, effects = step_supervisor(before, signal)
        plain, first = step_supervisor(before, structs.replace(signal, handle=None))
        up = next((one for one in effects if isinstance(one, StartChild) and one.handle is not None), None)
        if up is None:  # it was refused, had to wait, or is of a group, where starts go one at a time
            assert shown(effects) == shown(first)
            assert dict(after.children.items()).keys() == dict(plain.children.items()).keys()
        else:
            assert up.handle == signal.handle
            told = InstanceStarted(up.token, up.handle, at_seconds=self.now, draw=0.5)
            plain, second = step_supervisor(plain, told)
            bare = [structs.replace(one, handle=None) if one is up else one for one in effects]
            assert shown(bare) == shown((*first, *second))
            assert after == plain

    def carry_out(self, effects):
        """Note what is owed: of what is up already, no answer."""
        super().carry_out(effects)
        for effect in effects:
            if (
                isinstance(effect, StartChild)
                and effect.handle is not None
                and effect.token in self.processes
            ):
                self.processes[effect.token].state = "running"


class TestOffering(Offering.TestCase):  # type: ignore[valid-type,misc]  # Hypothesis makes it at run time
    """All that holds for starts in two steps holds with those in one, and they are the same."""
