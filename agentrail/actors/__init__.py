"""OTP for any actor on Trio, with no word of agents: who crashes is started again, and nothing outlives its block.

A signpost, nothing is exported from here. `supervisor` opens supervisors, `actor` makes what they run: workers, which are
async functions, and machines, whose `handle` is a pure function. `monitor` tells of ends, `registry` gives names,
`mailbox` is what all of them read from. The rules are those of `agentrail.otp`; this room carries them out.

async with open_supervisor(SupervisorFlags("rest_for_one"), [ChildSpec("door", machine(Door))]) as supervisor:
    supervisor.handle("door").cast(("coin", 2))
    print(await supervisor.handle("door").call("total"))
"""
