"""`make bench-peers`: the frameworks that one would take instead, beside the bare loop and us, in one run.

- `requirements/` what each one is, with its version · `install.py` an environment for each, under `.bench-peers/`
- `drive.py` the workloads, run by the Python of such an environment, with `of_…py` for what differs; they know nothing of us
- `here.py` the same workloads for the bare loop and for us · `table.py` what is compared, and how it is set

    python -m benchmarks.peers --only cycle

The modules that run elsewhere import nothing of ours, and are imported by nothing of ours.
"""
