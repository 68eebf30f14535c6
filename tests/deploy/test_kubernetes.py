"""The manifests for Kubernetes: valid, and in agreement with the programs, the rules and each other."""

from __future__ import annotations

import re
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
from deploy.generators.prometheus_rule import main
from hwsonde_detector.config import load_config
from hwsonde_exporter.config import load
from hwsonde_exporter.registry import load_collectors
from tests.deploy.conftest import ROOT
from tests.deploy.kubernetes import FOLDER, OVERLAYS, VERSIONS, Object, built, documents, one, overlay, validate

MANIFESTS = [
    path
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name != "kustomization.yaml" and not path.name.endswith("-config.yaml")
]
each_overlay = pytest.mark.parametrize("name", OVERLAYS)
each_version = pytest.mark.parametrize("version", VERSIONS)


def pod(workload: Object) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def everything(tmp_path: Path) -> tuple[Object, ...]:
    """The fleet's overlay with the components that stand there as comments."""
    folder = tmp_path / "kubernetes"
    folder.symlink_to(FOLDER)
    text = (FOLDER / "overlays" / "fleet" / "kustomization.yaml").read_text()
    text = re.sub(r"# (- \.\./\.\./components/\w+)", r"\1", text).replace("../..", str(FOLDER))
    mine = tmp_path / "mine"
    mine.mkdir()
    # kustomize takes relative paths only.
    up = "/".join([".."] * len(mine.parts[1:]))
    (mine / "kustomization.yaml").write_text(text.replace(str(FOLDER), f"{up}{FOLDER}"))
    return built(mine)


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
    daemon = pod(one(everything, "DaemonSet", "hwsonde-exporter"))
    assert daemon["runtimeClassName"] == "nvidia"
    context = daemon["containers"][0]["securityContext"]
    assert context["privileged"]
    assert not context["capabilities"]


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
    for program, kind in (("hwsonde-exporter", "DaemonSet"), ("hwsonde-detector", "StatefulSet")):
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
