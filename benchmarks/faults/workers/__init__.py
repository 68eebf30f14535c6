"""What the bench's processes do: one module a worker, each a function of a `benchmarks.faults.child.Task`."""
