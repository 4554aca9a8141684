"""The Trio shell around the pure core: it carries out effects, brings signals, and decides nothing.

- `supervisor.py` sessions under supervision · `session.py` the actor loop · `interpreter.py` effect → port call
- `tool_runner.py` one call in its own scope · `tool_calls.py` what it is given and says · `tool_threads.py` where it may run
- `handle.py` the `Session` · `ports.py` what one has to work with
- `event_bus.py` one order for all subscribers · `subscription.py` what one of them reads · `fan_in.py` many sessions as one

    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model="demo:")
"""
