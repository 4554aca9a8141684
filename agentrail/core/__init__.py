"""The session, pure: signals go in, `machine.step` decides, effects come out.

Everything here imports and runs with Trio uninstalled. No clock, no id, no randomness, no I/O and no logging may enter:
they arrive inside signals, or they are asked for with an effect.

    state = machine.new_session(config, tools)
    state, effects = machine.step(state, signal)
"""
