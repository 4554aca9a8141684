"""Sessions for asyncio programs, threads, notebooks and scripts: a supervisor in its own thread, with blocking calls.

    with blocking.Supervisor() as supervisor:
        session = supervisor.start_session(model="demo:")
        print(session.ask("Hi"))  # waits in this thread
        future = session.futures.ask("And again")  # a `concurrent.futures.Future`; asyncio: `await asyncio.wrap_future(future)`

Import everything from here. Calls, arguments and errors are those of `agentrail.open_supervisor` and its sessions.
"""

from agentrail.blocking.handles import (
    Session as Session,
    SessionFutures as SessionFutures,
    SessionMonitor as SessionMonitor,
    Supervisor as Supervisor,
    SupervisorFutures as SupervisorFutures,
)
from agentrail.blocking.iterators import (
    CycleStream as CycleStream,
    SessionReports as SessionReports,
    Subscription as Subscription,
)
