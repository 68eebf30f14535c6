"""NVML, NVIDIA's management library, in a process of its own that may hang, die and be replaced.

The library runs in the kernel's driver for most calls, and a sick GPU can keep such a call for ever. So a worker process
owns it, and this program only talks to the worker, with a deadline:

- `client` is what collectors use: ask for groups of readings, get an `answer`, never wait for long;
- `launcher`, `progress` and `quarantine` start and end the worker, see where it hangs, and keep it away from there;
- `worker` and the modules under it run in the worker and are the only ones that import ``pynvml``.
"""
