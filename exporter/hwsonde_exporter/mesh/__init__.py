"""The mesh probe: small echoes between hosts, to time the network itself.

It runs on two threads of its own, started and ended with the exporter: a collector could not keep a socket open for those who
ask, nor answer at once. What it finds lies on a board, which the collector ``network_probe`` reads.
"""
