"""What ``--help`` says below the options: examples, exit status, where to read on."""

from __future__ import annotations

_STATUS = """exit status:
  0    done
  1    a defect of the program: please report the line that it wrote; of run also an address that is not there yet or is
       taken, or too little memory: start it again
  2    what the operator can mend (a flag, a file, a server, a full disk): each on one line, with what to do
  130  interrupted"""

MAIN = f"""a first start:
  hwsonde-detector check-config detector.yaml                 names every mistake with its line
  hwsonde-detector run --config.file detector.yaml            page, JSON and /metrics on port 9881

questions about the past, answered from the history that Prometheus has:
  hwsonde-detector report --from -6h --config.file detector.yaml
  hwsonde-detector backtest --from -24h --config.file detector.yaml

Each command has --help of its own.

{_STATUS}

Every key of the file: docs/detector-configuration.md. Guides: docs/README.md (with a wheel they are installed in share/hwsonde/)."""

EPILOGS = {
    "run": f"""examples:
  hwsonde-detector run --config.file /etc/hwsonde/detector.yaml
  hwsonde-detector run --source.url http://prometheus:9090 --state.dir ./state

A flag wins over the file. SIGHUP reads the file again, and a wrong one changes nothing; SIGTERM and SIGINT save and end.

{_STATUS}""",
    "check-config": f"""example:
  hwsonde-detector check-config /etc/hwsonde/detector.yaml

It reads the file, the profiles and the secrets that it names, and asks no server.

{_STATUS}""",
    "replay": f"""example:
  hwsonde-detector replay recorded.archive --config.file detector.yaml > scores.jsonl

An archive is made by capture, or by the service where archive.record names a file. Twice gives the same bytes.

{_STATUS}""",
    "capture": f"""examples:
  hwsonde-detector capture --out recorded.archive --for 10m --source.url http://prometheus:9090
  hwsonde-detector capture --out recorded.archive --for 1h --every 15s --config.file detector.yaml

{_STATUS}""",
    "backtest": f"""examples:
  hwsonde-detector backtest --from -24h --config.file detector.yaml
  hwsonde-detector backtest --from -7d --labels faults.csv --preset configured reveal
  hwsonde-detector backtest --archive recorded.archive --out results

Results are one page and one JSON file in the folder of --out. An interrupted run goes on when the same command is given again.

{_STATUS}""",
    "report": f"""examples:
  hwsonde-detector report --from -6h --config.file detector.yaml
  hwsonde-detector report --from -2d --job slurm:4711 --config.file detector.yaml
  hwsonde-detector report --episode lab/n17@2026-11-29T19:23:41Z

The status says nothing of the verdict; programs read verdict.kind in report.json.

{_STATUS}""",
    "evidence": f"""example:
  hwsonde-detector evidence 20261129T192341Z-01fe440f9511 --config.file detector.yaml

The id is the end of an incident's address, /incidents/ID. What the configuration hides is hidden here too.

{_STATUS}""",
    "kpi": f"""example:
  hwsonde-detector kpi --from -30d --config.file detector.yaml

{_STATUS}""",
}
