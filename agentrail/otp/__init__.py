"""OTP's rules as pure functions: why an actor ended, what a state machine does, what a supervisor decides.

A signpost, nothing is exported from here. `exits` has the seven reasons; `statem` is gen_statem, one `step_statem` per event,
and re-exports what its users write (`statem_types`); `supervision` decides what becomes of children, with their specs in
`child_specs`. `agentrail.actors` carries all of it out under Trio; here nothing
knows of Trio, a clock, or an agent, and all of it runs without them:

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
