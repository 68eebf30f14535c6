"""The manifests for Kubernetes: valid, and in agreement with the programs, the rules and each other."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from alert_rules.generate import rule_file
from alert_rules.rules import Links
from alert_rules.timing import PROFILES
from deploy.generators.completion import exporter_parser
from deploy.generators.prometheus_rule import main
from hwsonde_detector.cli import make_parser as detector_parser
from hwsonde_detector.config import load_config
from hwsonde_detector.config.web_file import read_web_file
from hwsonde_exporter.config import load
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.web_config import load_web_config
from tests.deploy.conftest import ROOT
from tests.deploy.kubernetes import (
    FOLDER,
    OVERLAYS,
    VERSIONS,
    Object,
    built,
    documents,
    one,
    overlay,
    validate,
    workloads,
)
from tests.docs.markdown import blocks

MANIFESTS = [
    path
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name != "kustomization.yaml" and not path.name.endswith("-config.yaml")
]
COMPONENTS = ("gpus", "privileged", "tls")
WORKLOADS = {"hwsonde-exporter": "DaemonSet", "hwsonde-detector": "StatefulSet"}
each_overlay = pytest.mark.parametrize("name", OVERLAYS)
each_version = pytest.mark.parametrize("version", VERSIONS)


def pod(workload: Object) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def mine(tmp_path: Path, more: str = "", components: tuple[str, ...] = COMPONENTS) -> tuple[Object, ...]:
    """The fleet's overlay with components of those that stand there as comments, in this order, and with ``more`` patches."""
    text = (FOLDER / "overlays" / "fleet" / "kustomization.yaml").read_text()
    folder = tmp_path / "mine"
    folder.mkdir()
    # kustomize takes relative paths only.
    up = "/".join([".."] * len(folder.parts[1:]))
    offered = re.findall(r"^  # - \.\./\.\./components/(\w+).*\n", text, re.MULTILINE)
    assert tuple(offered) == COMPONENTS
    lines = "".join(f"  - ../../components/{name}\n" for name in components)
    text = re.sub(r"(^  # - \.\./\.\./components/\w+.*\n)+", lines, text, flags=re.MULTILINE).replace(
        "../..", f"{up}{FOLDER}"
    )
    (folder / "kustomization.yaml").write_text(text + more)
    return built(folder)


@pytest.fixture
def everything(tmp_path: Path) -> tuple[Object, ...]:
    return mine(tmp_path)


@each_version
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_files_are_valid(path: Path, version: str) -> None:
    found = documents(path.read_text())
    assert found
    for document in found:
        validate(document, version)


@each_version
@each_overlay
def test_overlays_are_valid(name: str, version: str) -> None:
    for document in overlay(name):
        validate(document, version)


def test_with_all_components_too(everything: tuple[Object, ...]) -> None:
    for document in everything:
        validate(document, VERSIONS[-1])
    assert len(workloads(everything, "hwsonde-exporter")) == 2
    for daemon in workloads(everything, "hwsonde-exporter"):
        context = pod(daemon)["containers"][0]["securityContext"]
        assert context["privileged"]
        assert not context["capabilities"]


def selected(spec: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a pod of this specification may run on a node with these labels."""
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    expressions = [each for term in terms.get("nodeSelectorTerms", ()) for each in term["matchExpressions"]]
    assert all(each["operator"] == "NotIn" for each in expressions)
    shut_out = any(labels.get(each["key"]) in each["values"] for each in expressions)
    return spec["nodeSelector"].items() <= labels.items() and not shut_out


@pytest.mark.parametrize("gpu", [{}, {"nvidia.com/gpu.present": "true"}, {"nvidia.com/gpu.present": "false"}])
def test_a_node_has_one_exporter_and_one_with_gpus_that_of_the_runtime(tmp_path: Path, gpu: dict[str, str]) -> None:
    objects = mine(tmp_path, components=("gpus",))
    (daemon,) = [
        each
        for each in workloads(objects, "hwsonde-exporter")
        if selected(pod(each), {"kubernetes.io/os": "linux", **gpu})
    ]
    environment = {each["name"]: each["value"] for each in pod(daemon)["containers"][0].get("env", ())}
    if "true" in gpu.values():
        assert pod(daemon)["runtimeClassName"] == "nvidia"
        assert environment == {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    else:
        assert "runtimeClassName" not in pod(daemon)
        assert not environment


@each_version
def test_the_check_before_a_job_sees_gpus_as_the_exporter_does(tmp_path: Path, version: str) -> None:
    (shown,) = [
        block for block in blocks(ROOT / "docs" / "check.md") if any("initContainers" in line for line in block.lines)
    ]
    spec = yaml.safe_load("\n".join(shown.lines))
    spec["containers"] = [{"name": "job", "image": "job"}]
    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}, "spec": spec}, version)
    (container,) = spec["initContainers"]
    command = re.match(r"hwsonde-exporter (.*?);", container["command"][2])
    assert command
    exporter_parser().parse_args(shlex.split(command[1]))
    of_gpus = pod(one(mine(tmp_path, components=("gpus",)), "DaemonSet", "hwsonde-exporter-gpus"))
    assert spec["runtimeClassName"] == of_gpus["runtimeClassName"]
    assert container["env"] == of_gpus["containers"][0]["env"]


@pytest.mark.parametrize("components", [COMPONENTS, COMPONENTS[::-1]], ids=["gpus first", "gpus last"])
def test_both_daemon_sets_run_the_same_but_for_the_gpus(tmp_path: Path, components: tuple[str, ...]) -> None:
    objects = mine(tmp_path, components=components)
    base, gpus = (one(objects, "DaemonSet", name) for name in ("hwsonde-exporter", "hwsonde-exporter-gpus"))
    own = pod(gpus).pop("runtimeClassName"), pod(gpus)["containers"][0].pop("env"), pod(base).pop("affinity")
    assert all(own)
    del pod(gpus)["nodeSelector"]["nvidia.com/gpu.present"]
    assert pod(gpus) == pod(base)
    assert gpus["spec"]["updateStrategy"] == base["spec"]["updateStrategy"]


def test_no_daemon_set_looks_for_the_pods_of_the_other_and_the_service_finds_both(
    everything: tuple[Object, ...],
) -> None:
    service = one(everything, "Service", "hwsonde-exporter")["spec"]["selector"]
    daemons = workloads(everything, "hwsonde-exporter")
    for each in daemons:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert service.items() <= labels.items()
        finders = [one for one in daemons if one["spec"]["selector"]["matchLabels"].items() <= labels.items()]
        assert finders == [each]
    detector = one(everything, "StatefulSet", "hwsonde-detector")["spec"]["template"]["metadata"]["labels"]
    assert not service.items() <= detector.items()


def test_without_the_operator_the_pods_of_both_are_scraped(everything: tuple[Object, ...]) -> None:
    example = yaml.safe_load((ROOT / "deploy" / "examples" / "prometheus-kubernetes.yml").read_text())
    kept = {
        job["job_name"]: rule["regex"]
        for job in example["scrape_configs"]
        for rule in job["relabel_configs"]
        if rule.get("source_labels") == ["__meta_kubernetes_pod_label_app_kubernetes_io_name"]
    }
    for program in WORKLOADS:
        for workload in workloads(everything, program):
            name = workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
            assert [job for job, regex in kept.items() if re.fullmatch(regex, name)] == [program]


def ports_asked(workload: Object) -> list[dict[str, Any]]:
    container = pod(workload)["containers"][0]
    return [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]


@each_overlay
def test_without_tls_probes_and_scrapes_are_in_the_clear(name: str) -> None:
    objects = overlay(name)
    for program, kind in WORKLOADS.items():
        assert [get.get("scheme", "HTTP") for get in ports_asked(one(objects, kind, program))] == ["HTTP", "HTTP"]
        assert one(objects, "ServiceMonitor", program)["spec"]["endpoints"][0].get("scheme", "http") == "http"


def test_with_tls_programs_serve_it_and_probes_and_scrapes_ask_by_it(everything: tuple[Object, ...]) -> None:
    web = one(everything, "Secret", "hwsonde-web")
    for program, workload in [(name, each) for name in WORKLOADS for each in workloads(everything, name)]:
        assert [get["scheme"] for get in ports_asked(workload)] == ["HTTPS", "HTTPS"]
        container = pod(workload)["containers"][0]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "web"]
        assert container["args"][-1] == f"--web.config.file={mount['mountPath']}/web.yml"
        assert mount["readOnly"]
        (volume,) = [each for each in pod(workload)["volumes"] if each["name"] == "web"]
        ours, theirs = (each["secret"] for each in volume["projected"]["sources"])
        assert (ours["name"], list(web["data"])) == (web["metadata"]["name"], ["web.yml"])
        assert theirs["name"] == f"{program}-tls"
        assert {each["path"] for each in theirs["items"]} == {"tls.crt", "tls.key", "ca.crt"}
        # Who may not be root reads it by its group.
        assert volume["projected"]["defaultMode"] == 0o440
        assert pod(workload).get("securityContext", {}).get("fsGroup") == pod(workload).get("securityContext", {}).get(
            "runAsGroup"
        )
        (endpoint,) = one(everything, "ServiceMonitor", program)["spec"]["endpoints"]
        assert (endpoint["scheme"], endpoint["interval"]) == ("https", "15s")
        assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": theirs["name"], "key": "ca.crt"}
        service = one(everything, "Service", program)["metadata"]
        assert endpoint["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"


def test_both_programs_take_the_file_that_says_tls(tmp_path: Path) -> None:
    text = (FOLDER / "components" / "tls" / "web.yml").read_text()
    users = re.sub(r"^# (?=basic_auth_users|  prometheus)", "", text, flags=re.MULTILINE).replace(
        "$2y$10$...", f"$2y$10${'a' * 53}"
    )
    assert users != text
    for number, content in enumerate((text, users)):
        file = tmp_path / f"{number}.yml"
        file.write_text(content)
        ours, theirs = load_web_config(file), read_web_file(file)
        assert ours.tls
        assert {path.name for path in ours.tls.files} == {"tls.crt", "tls.key"}
        assert theirs.tls
        assert len(ours.users) == len(theirs.users) == number


def test_the_programs_take_the_options_of_the_pods(everything: tuple[Object, ...]) -> None:
    for workload in (each for name in WORKLOADS for each in workloads(everything, name)):
        kind, arguments = workload["kind"], pod(workload)["containers"][0]["args"]
        given = (exporter_parser() if kind == "DaemonSet" else detector_parser()).parse_args(arguments)
        assert (
            vars(given)["web.config.file" if kind == "DaemonSet" else "--web.config.file"] == "/etc/hwsonde-web/web.yml"
        )


@pytest.mark.parametrize("heading", ["passwords", "client certificates"])
def test_what_the_guide_adds_to_tls_is_taken(heading: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    (block,) = re.findall(rf"```yaml\n(  # {heading}\n.*?)```", page, re.DOTALL)
    objects = mine(tmp_path, block)
    for each in objects:
        validate(each, VERSIONS[-1])
    for program, workload in [(name, each) for name in WORKLOADS for each in workloads(objects, name)]:
        endpoint = one(objects, "ServiceMonitor", program)["spec"]["endpoints"][0]
        container = pod(workload)["containers"][0]
        if heading == "passwords":
            assert endpoint["basicAuth"]["password"]["key"] == "password"
            assert "httpGet" in container["livenessProbe"]
        else:
            assert endpoint["tlsConfig"]["keySecret"]["key"] == "tls.key"
            names = {port["name"] for port in container["ports"]}
            for probe in ("livenessProbe", "readinessProbe"):
                assert "httpGet" not in container[probe]
                assert container[probe]["tcpSocket"]["port"] in names


def test_the_validation_can_fail() -> None:
    (workload,) = (
        each for each in documents((FOLDER / "base/exporter.yaml").read_text()) if each["kind"] == "DaemonSet"
    )
    pod(workload)["hostNetworking"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(workload, VERSIONS[0])
    monitor = documents((FOLDER / "components/operator/service-monitors.yaml").read_text())[0]
    monitor["spec"]["endpoints"][0]["honourLabels"] = True
    with pytest.raises(jsonschema.ValidationError):
        validate(monitor, VERSIONS[0])


@each_overlay
def test_everything_is_in_one_namespace_under_names_that_exist(name: str) -> None:
    objects = overlay(name)
    maps = {each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"}
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    for each in objects:
        if each["kind"] != "Namespace":
            assert each["metadata"]["namespace"] == "hwsonde"
        if each["kind"] in {"DaemonSet", "StatefulSet"}:
            spec = pod(each)
            assert spec["serviceAccountName"] in accounts
            assert {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume} <= maps
            assert {mount["name"] for mount in spec["containers"][0]["volumeMounts"]} == {
                *(volume["name"] for volume in spec["volumes"]),
                *(claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())),
            }
            assert re.fullmatch(r".+/hwsonde-\w+:\d+\.\d+\.\d+", spec["containers"][0]["image"])


@each_overlay
def test_a_service_monitor_finds_a_service_and_that_finds_pods(name: str) -> None:
    objects = overlay(name)
    for program, kind in WORKLOADS.items():
        monitor, service, workload = (one(objects, each, program) for each in ("ServiceMonitor", "Service", kind))
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["spec"]["selector"].items() <= labels.items()
        (endpoint,), (port,) = monitor["spec"]["endpoints"], service["spec"]["ports"]
        assert endpoint["port"] == port["name"]
        assert port["targetPort"] in {each["name"] for each in pod(workload)["containers"][0]["ports"]}
        # The rules look for jobs of these names.
        assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == program


@each_overlay
def test_scrape_and_rules_have_the_interval_of_the_profile(name: str) -> None:
    objects, timing = overlay(name), PROFILES[name]
    for each in objects:
        if each["kind"] == "ServiceMonitor":
            assert each["spec"]["endpoints"][0]["interval"] == f"{timing.evaluation}s"
    groups = one(objects, "PrometheusRule", "hwsonde")["spec"]["groups"]
    assert groups == yaml.safe_load(rule_file(timing, Links()))["groups"]


@each_overlay
def test_promtool_takes_the_rules(name: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(one(overlay(name), "PrometheusRule", "hwsonde")["spec"]))
    done = subprocess.run(
        ["promtool", "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_exporters_configuration_is_taken(tmp_path: Path) -> None:
    text = (FOLDER / "base" / "exporter-config.yaml").read_text()
    places = re.findall(r"/host/\w+", text)
    mounts = pod(documents((FOLDER / "base/exporter.yaml").read_text())[-1])["containers"][0]["volumeMounts"]
    assert set(places) <= {mount["mountPath"] for mount in mounts}
    for place in places:
        (tmp_path / place[1:]).mkdir(parents=True)
    (tmp_path / "exporter.yaml").write_text(text.replace("/host", f"{tmp_path}/host"))
    settings = load([f"--config.file={tmp_path}/exporter.yaml"], load_collectors())
    assert settings.paths.rootfs == tmp_path / "host" / "root"


def test_the_detectors_configuration_is_taken() -> None:
    config = load_config(FOLDER / "base" / "detector-config.yaml")
    assert config.mode == "shadow"
    workload = documents((FOLDER / "base/detector.yaml").read_text())[-1]
    assert str(config.state.dir) in {mount["mountPath"] for mount in pod(workload)["containers"][0]["volumeMounts"]}
    assert config.web.listen.port == pod(workload)["containers"][0]["ports"][0]["containerPort"]


def test_the_exporter_has_the_capabilities_of_the_service() -> None:
    unit = (ROOT / "deploy" / "systemd" / "hwsonde-exporter.service").read_text()
    (wanted,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    context = pod(documents((FOLDER / "base/exporter.yaml").read_text())[-1])["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": [name.removeprefix("CAP_") for name in wanted.split()]}
    assert not context["allowPrivilegeEscalation"]


def test_the_detector_fits_the_strictest_level_of_pod_security() -> None:
    """Level "restricted" of the Pod Security Standards."""
    spec = pod(documents((FOLDER / "base/detector.yaml").read_text())[-1])
    context = spec["containers"][0]["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not context["allowPrivilegeEscalation"]
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_a_site_prints_the_rules_with_its_own_links(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--profile", "fast", "--detector-url", "https://h.example"]) == 0
    (document,) = documents(capsys.readouterr().out)
    validate(document, VERSIONS[0])
    assert "https://h.example/" in str(document)
    assert main(["--profile", "fast", "--detector-url", "h.example"]) == 2
    assert "give an http or https address" in capsys.readouterr().err
