"""The soak of the gateway: a server that is used badly and killed, and an account from outside of what it said.

- `desk.py` what is served · `process.py` the server as a process · `client.py` connections to it, which know nothing of agentrail
- `account.py` what was acknowledged and seen · `run.py` what all tasks share · `senders.py` · `readers.py` · `settling.py` what they do

    python -m benchmarks.gateway_soak --seconds 600 --kill-every 60 --seed 1
"""
