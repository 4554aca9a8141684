"""The public test kit. Import each part from its own module, so that a test pays only for the parts it uses.

- `models`: `ScriptedModel`, `FunctionModel`, and their responses: `says`, `calls`, `fails`
- `cassette`: `CassetteModel(path)`, which replays recorded responses of a real model
- `tools`: `RecordingTool`, `HangingTool`, `CrashingTool`, `StubbornTool`, `LedgerTool`, one behaviour each
- `clock`: `FakeClock`, under which waiting takes no time, `threads_hold`, for which it waits, and `set_date`
- `faults`: `FaultPlan(seed)`, under which models, tools and subscribers fail: the same seed, the same run
- `seeded`: `SeededMachine(seed)`, ids, clocks, chance and threads from a seed. `schedule`: `seeded_order(seed)`, the order of tasks
- `digest`: `run_seeded(main, seed)`, a program on virtual time and the digest of its actions: one seed, one digest
- `taken`: `no_lost_items()`, which finds accepted but unhandled messages of a mailbox
- `folded`: `folded_sessions()`, which journals every session in memory and checks it against its journal
- `published`: `events_of(session)`, `expect(events).kinds(…)` and `tree(events)`, readable assertions
- `orphans`: `no_orphans()`, which finds tasks, threads, processes and descriptors that a block left behind
- `hooks`: `load_stack`, `run_hook`, the actions of plugins, by hand and without a session
- `held`: `held(actor)`, which builds races: meanwhile the actor takes no message from its mailbox
- `cancelling`: `cancel_everywhere(scenario)`, which cancels, aborts, steers, closes or crashes it at every step; `crash(session)`
- `check_dialects`: `check_dialects(request)`, the rules of every vendor's format, for a session that may switch models
- `check_plugin`: `check_plugin(plugin, options=[…])`, the contract of a plugin
- `check_provider`: `check_provider(case)`, the requirements of a session on every provider
- `check_requests`: `check_requests_extend(requests)`, which finds volatile content in the part that a vendor caches
- `serving`: `open_server(…)`, an HTTP server that cuts, stalls and trickles. `chunks`: checks of a response
- `check_tool(tool, arguments, ctx)`, `check_sandbox(make)`, `check_provider`: the rules of every implementation of a port
- `check_memory(make)`, the same for memory stores. `check_knowledge(make)` for knowledge stores,
  `check_notes(make)` for stores of working notes
- `check_store(make, pass_lease=…)`, the same for session stores. `cut_store`: `CutStore`, a store whose connection is cut
- `cancelling`: `check_history`, `check_events`, `check_nothing_lost`, the rules that hold for every conversation
- `scenario`: `run_scenario(path)`, conversations as text. `python -m agentrail.testing.scenario --rewrite` stores them
- `supervisors`: `open_nameless()`, a supervisor that knows no model by its name
- `pytest_plugin`: the fixtures `supervisor`, `scripted` and `clock`, available wherever agentrail is installed
- `stacks`: plugin stacks under any order of signals: `stack_machine`, `invariant`, `commute` (needs hypothesis)
- `strategies`: Hypothesis strategies of signals, messages and calls (needs hypothesis)

    model = ScriptedModel([calls(("add", {"a": 1})), says("one")])
    session = await supervisor.start_session(model=model, tools=[add])
"""
