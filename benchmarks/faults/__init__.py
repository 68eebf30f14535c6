"""The live fault bench: real workloads and real faults on this host, recorded once, scored as often as wanted.

    python -m benchmarks.faults record DIR    # learns the host, makes faults, records what the exporter said
    python -m benchmarks.faults score DIR     # drives the shipped detector and plain methods over the recording
    python -m benchmarks.faults report DIR    # tables

docs/fault-bench.md says how to run and read it.
"""
