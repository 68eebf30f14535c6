"""Objects of deploy/kubernetes: as they are in files, and as kustomize (in kubectl) puts them together."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.conftest import ROOT
from tests.deploy.crds import SCHEMAS

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = ["fleet", "fast"]
# The oldest that has all we use, and the newest that the library knows.
VERSIONS = ["1.28", kubernetes_validate.latest_version()]
Object = dict[str, Any]


def documents(text: str) -> list[Object]:
    return [document for document in yaml.safe_load_all(text) if document]


@functools.cache
def built(folder: Path) -> tuple[Object, ...]:
    """All objects of a kustomization, as a cluster gets them."""
    if not shutil.which("kubectl"):
        pytest.skip("kubectl, which brings kustomize, is not installed")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return tuple(documents(done.stdout))


def overlay(name: str) -> tuple[Object, ...]:
    return built(FOLDER / "overlays" / name)


def one(objects: tuple[Object, ...], kind: str, name: str) -> Object:
    """The object of this kind and name, or whose name begins so where none is called that."""
    names = {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}
    (found,) = [names[name]] if name in names else [each for given, each in names.items() if given.startswith(name)]
    return found


def workloads(objects: tuple[Object, ...], program: str) -> list[Object]:
    """What runs a program: one object, or two for the exporter where nodes with GPUs have their own."""
    found = [
        each
        for each in objects
        if each["kind"] in {"DaemonSet", "StatefulSet"} and each["metadata"]["name"].startswith(program)
    ]
    assert found
    return found


def validate(document: Object, version: str) -> None:
    """Fail where the API server of that version would not take it, or would drop a field."""
    if document["kind"] in SCHEMAS:
        jsonschema.validate(document, SCHEMAS[document["kind"]])
    else:
        kubernetes_validate.validate(document, version, strict=True)
