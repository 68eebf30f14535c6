"""The examples of Prometheus's configuration: promtool takes them, and every target gets the labels that name a host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from alert_rules.timing import FLEET
from tests.deploy.conftest import ROOT

FOLDER = ROOT / "deploy" / "examples"
EXAMPLES = sorted(FOLDER.glob("prometheus-*.yml"))
PODS = {
    "hwsonde-exporter": ("hwsonde-exporter-x7k2p", "metrics", 9880),
    "hwsonde-detector": ("hwsonde-detector-0", "web", 9881),
}
each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fake_slurm(folder: Path, nodes: str = "n2\nn1\nn1\nn3\n", cluster: str = "lab") -> dict[str, str]:
    """An environment in which Slurm's commands say this."""
    folder.mkdir(exist_ok=True)
    answers = {
        "sinfo": nodes,
        "scontrol": f"AccountingStorageHost   = db\nClusterName             = {cluster}\nSlurmctldPort = 6817\n",
    }
    for name, text in answers.items():
        (folder / f"{name}.txt").write_text(text)
        (folder / name).write_text(f"#!/bin/sh\ncat {folder / name}.txt\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def slurm_targets(out: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [FOLDER / "slurm-targets", out]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def placed(path: Path, folder: Path) -> Path:
    """The example as it lies on a host, with the rules and targets that it names."""
    shutil.copytree(FOLDER / "targets", folder / "targets")
    assert slurm_targets(folder / "targets" / "slurm.json", fake_slurm(folder / "bin")).returncode == 0
    shutil.copy(ROOT / "alert_rules" / "fleet.yml", folder)
    copy = folder / path.name
    copy.write_text(path.read_text().replace("/etc/prometheus/hwsonde", str(folder)))
    return copy


def labels(config: Path, job: str) -> list[dict[str, str]]:
    """What promtool finds for the targets of a job."""
    found = json.loads(promtool("check", "service-discovery", "--timeout=2s", config, job))
    return [target["labels"] for target in found if target["labels"]]


@each_example
def test_promtool_takes_it_with_the_rules(path: Path, tmp_path: Path) -> None:
    config = placed(path, tmp_path)
    # Debian's promtool is built without the discovery of Kubernetes, and takes no such section.
    config.write_text(yaml.safe_dump(with_pods(yaml.safe_load(config.read_text()))))
    assert "1 rule files found" in promtool("check", "config", config)


@each_example
def test_intervals_and_jobs_are_what_the_rules_count_on(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert document["global"]["scrape_interval"] == document["global"]["evaluation_interval"] == f"{FLEET.evaluation}s"
    jobs = {job["job_name"]: job for job in document["scrape_configs"]}
    assert set(jobs) == {"hwsonde-exporter", "hwsonde-detector"}
    assert jobs["hwsonde-detector"]["honor_labels"] is True
    assert "honor_labels" not in jobs["hwsonde-exporter"]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("static", {("a", "node17"), ("a", "node18")}),
        ("file-sd", {("a", "node17"), ("a", "node18"), ("a", "storage1")}),
        ("slurm", {("lab", "n1"), ("lab", "n2"), ("lab", "n3")}),
        ("kubernetes", {("a", "gpu-7")}),
    ],
)
def test_every_host_has_its_name(name: str, nodes: set[tuple[str, str]], tmp_path: Path) -> None:
    config = placed(FOLDER / f"prometheus-{name}.yml", tmp_path)
    config.write_text(yaml.safe_dump(with_pods(yaml.safe_load(config.read_text()))))
    found = labels(config, "hwsonde-exporter")
    assert {(each["cluster"], each["node"]) for each in found} == nodes
    assert len(found) == len(nodes)
    (detector,) = labels(config, "hwsonde-detector")
    assert {"cluster", "node"} <= detector.keys()


def with_pods(document: dict[str, Any]) -> dict[str, Any]:
    """The configuration with pods as static targets, since promtool would ask an API server for them."""
    for job in document["scrape_configs"]:
        if discovery := job.pop("kubernetes_sd_configs", None):
            assert discovery == [{"role": "pod", "namespaces": {"names": ["hwsonde"]}}]
            job["static_configs"] = [
                {
                    "targets": [f"10.0.0.7:{port}"],
                    "labels": {
                        "__meta_kubernetes_pod_label_app_kubernetes_io_name": program,
                        "__meta_kubernetes_pod_name": pod,
                        "__meta_kubernetes_pod_node_name": "gpu-7",
                        "__meta_kubernetes_pod_container_port_name": name,
                    },
                }
                for program, (pod, name, port) in PODS.items()
            ]
    return document


def test_names_of_nodes_from_addresses(tmp_path: Path) -> None:
    config = placed(FOLDER / "prometheus-file-sd.yml", tmp_path)
    named = {
        "node17.example.org:9880": "node17",
        "node18:9880": "node18",
        "10.20.0.7:9880": "10.20.0.7",
        "[fd00::7]:9880": "[fd00::7]",
    }
    groups = [
        {"targets": list(named), "labels": {"cluster": "a"}},
        {"targets": ["node19.example.org:9880"], "labels": {"cluster": "a", "node": "rack3-19"}},
    ]
    (tmp_path / "targets" / "hosts.yml").write_text(yaml.safe_dump(groups))
    (tmp_path / "targets" / "slurm.json").unlink()
    found = {each["instance"]: each["node"] for each in labels(config, "hwsonde-exporter")}
    assert found == {**named, "node19.example.org:9880": "rack3-19"}


@pytest.mark.parametrize(("nodes", "cluster"), [("", "lab"), ("n1\n", "")])
def test_slurm_that_says_nothing_leaves_the_old_targets(nodes: str, cluster: str, tmp_path: Path) -> None:
    out = tmp_path / "slurm.json"
    out.write_text("[]")
    done = slurm_targets(out, fake_slurm(tmp_path / "bin", nodes, cluster))
    assert done.returncode == 2
    assert re.fullmatch(r"slurm-targets: .* stays as it is\n", done.stderr)
    assert out.read_text() == "[]"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["prometheus-kubernetes.yml"])
def test_the_operator_gives_hosts_the_same_names(name: str) -> None:
    """What the ServiceMonitors call a node is what the configuration without the operator calls it."""
    jobs = {job["job_name"]: job for job in yaml.safe_load((FOLDER / name).read_text())["scrape_configs"]}
    monitors = yaml.safe_load_all((ROOT / "deploy/kubernetes/components/operator/service-monitors.yaml").read_text())
    for monitor in monitors:
        theirs = {rule.get("targetLabel"): rule for rule in monitor["spec"]["endpoints"][0]["relabelings"]}
        ours = {rule.get("target_label"): rule for rule in jobs[monitor["metadata"]["name"]]["relabel_configs"]}
        assert theirs["node"]["sourceLabels"] == ours["node"]["source_labels"]
        assert "cluster" in theirs.keys() & ours.keys()
