"""OTP's rules as pure functions: exit reasons, state machines and supervisors.

This package exports nothing itself. `exits` has the seven exit reasons. `statem` is gen_statem: one
`step_statem` per event. It re-exports the names that its users write (`statem_types`). `supervision` decides
about children, whose specs are in `child_specs`. `agentrail.actors` carries out the decisions under Trio. This
package knows neither Trio nor a clock nor an agent, and runs without them:

    >>> from agentrail.otp.statem import Call, Cast, Init, Keep, NextState, Reply, SendReply, start_statem, step_statem
    >>> class Door:
    ...     def handle(self, event, state, data):
    ...         match state, event:
    ...             case "locked", Cast(("coin", int(n))):
    ...                 return NextState("open", data + n)
    ...             case _, Call(to, "total"):
    ...                 return Keep(actions=[Reply(to, data)])
    ...         return Keep()
    >>> engine, effects = start_statem(Door(), Init("locked", 0), now=0.0)
    >>> engine, effects = step_statem(Door(), engine, Cast(("coin", 2)), now=1.0)
    >>> engine.state
    'open'
    >>> step_statem(Door(), engine, Call("me", "total"), now=2.0)[1] == (SendReply("me", 2),)
    True
"""
