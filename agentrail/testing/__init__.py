"""The public test kit. Each part is imported from its own module, so that a test pays only for what it uses.

- `models`: `ScriptedModel`, `FunctionModel`, and what they say: `says`, `calls`, `fails`
- `cassette`: `CassetteModel(path)`, which plays what a real model said once
- `tools`: `RecordingTool`, `HangingTool`, `CrashingTool`, `StubbornTool`, `LedgerTool`, one behaviour each
- `clock`: `FakeClock`, under which nothing takes time, `threads_hold`, for which it waits, and `set_date`
- `faults`: `FaultPlan(seed)`, under which models, tools and subscribers fail: the same seed, the same run
- `seeded`: `SeededMachine(seed)`, ids, clocks, chance and threads from a seed; `schedule`: `seeded_order(seed)`, that of tasks
- `digest`: `run_seeded(main, seed)`, a program on virtual time and the digest of all that it did: one seed, one digest
- `taken`: `no_lost_items()`, which finds what a mailbox accepted and nothing ever handled
- `folded`: `folded_sessions()`, under which every session is journaled in memory, and is what its journal comes to
- `published`: `events_of(session)`, `expect(events).kinds(…)` and `tree(events)`, readable assertions
- `orphans`: `no_orphans()`, which finds tasks, threads, processes and descriptors that a block left behind
- `hooks`: `load_stack`, `run_hook`, what plugins answer, by hand and without a session
- `held`: `held(actor)`, which builds races: meanwhile it takes nothing from its mailbox
- `cancelling`: `cancel_everywhere(scenario)`, which cancels, aborts, steers, closes or crashes it at every step; `crash(session)`
- `check_dialects`: `check_dialects(request)`, the rules of every vendor's format, for a session that may switch models
- `check_plugin`: `check_plugin(plugin, options=[…])`, the contract of a plugin
- `check_provider`: `check_provider(case)`, what a session relies on in every provider
- `check_requests`: `check_requests_extend(requests)`, which finds what is volatile in the part that a vendor caches
- `serving`: `open_server(…)`, an HTTP server that cuts, stalls and trickles; `chunks`: what can be said of a response
- `check_tool(tool, arguments, ctx)`, `check_sandbox(make)`, `check_provider`: what every implementation of a port keeps to
- `check_memory(make)`, the same for stores of what is remembered; `check_knowledge(make)` for those of knowledge,
  `check_notes(make)` for those of working notes
- `check_store(make, pass_lease=…)`, the same for the port for stores; `cut_store`: `CutStore`, a store whose connection is cut
- `cancelling`: `check_history`, `check_events`, `check_nothing_lost`, the rules that hold for every conversation
- `scenario`: `run_scenario(path)`, conversations as text; `python -m agentrail.testing.scenario --rewrite` stores them
- `supervisors`: `open_nameless()`, a supervisor that knows no model by its name
- `pytest_plugin`: the fixtures `supervisor`, `scripted` and `clock`, there wherever agentrail is installed
- `stacks`: plugin stacks under any order of signals: `stack_machine`, `invariant`, `commute` (needs hypothesis)
- `strategies`: Hypothesis strategies of signals, messages and calls (needs hypothesis)

    model = ScriptedModel([calls(("add", {"a": 1})), says("one")])
    session = await supervisor.start_session(model=model, tools=[add])
"""
