"""What agentrail costs, each figure beside a bare Trio loop that does the same work in the same run.

- `bars.py` what each figure is held against · `explain.py` where the time of a missed row goes
- `bare.py` the loop to compare with · `ours.py` the same through the public door · `measure.py` how a figure is taken
- `cycles.py` · `crowds.py` · `idle.py` · `streams.py` · `aborts.py` the workloads
- `bodies.py` · `folds.py` · `bystanders.py` pieces alone, without a loop
- `editors.py` an editor that starts an agent · `sse_server.py` a process of its own, so that its CPU is nobody's · `report.py` the table and the JSON

    python -m benchmarks --only cycle
"""
