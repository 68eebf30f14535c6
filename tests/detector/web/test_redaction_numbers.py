"""Values that are numbers: names where they are told to be, and quantities everywhere else."""

from __future__ import annotations

import pytest

from hwsonde_detector.redaction import Replacing, is_number

NUMBERS = {"job_id": {"4711": "job_id-a"}, "gpu": {"3": "gpu-b", "12": "gpu-c"}}
REPLACING = Replacing({"n1": "node-d"}, NUMBERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1 gpu 3 (0000:8d:00.0): 3 W", "node-d gpu gpu-b (0000:8d:00.0): 3 W"),
        ('x{gpu="3",port="3"}', 'x{gpu="gpu-b",port="3"}'),
        ("x{gpu=3,port=3}", "x{gpu=gpu-b,port=3}"),
        ("NVRM: GPU 12: fell off", "NVRM: GPU gpu-c: fell off"),
        ("slurm:4711 and slurm/4711", "slurm:job_id-a and slurm/job_id-a"),
        ("/uid_1000/job_4711/step_0", "/uid_1000/job_job_id-a/step_0"),
        ("job_id=4711", "job_id=job_id-a"),
        ("4711 MB, 47114711, 4711.5 and 1.4711", "4711 MB, 47114711, 4711.5 and 1.4711"),
        ("2026-11-29T03:12:03Z, 3 of 12", "2026-11-29T03:12:03Z, 3 of 12"),
        ("gpu 3.5 GHz, gpu 30, gpu3", "gpu 3.5 GHz, gpu 30, gpu3"),
        ("mlx5_3 and nvlink:3", "mlx5_3 and nvlink:3"),
        ("[ 4711.123] at 12:4711", "[ 4711.123] at 12:4711"),
    ],
)
def test_a_number_is_replaced_where_it_is_told_what_it_is(text: str, expected: str) -> None:
    assert REPLACING.of(text) == expected


def test_numbers_and_values_of_documents_stay() -> None:
    document = {
        "at_ms": 4711,
        "value": "3",
        "device": {"class": "gpu", "name": "3"},
        "other": {"class": "nic", "name": "3"},
    }
    assert REPLACING.of(document) == {**document, "device": {"class": "gpu", "name": "gpu-b"}}
    assert REPLACING.of({"class": "gpu", "name": ["3"]}) == {"class": "gpu", "name": ["3"]}


@pytest.mark.parametrize(
    ("value", "number"),
    [("4711", True), ("-1.5", True), ("n1", False), ("10.0.0.1", False), ("", False), ("1e", False)],
)
def test_what_a_number_is(value: str, number: bool) -> None:
    assert is_number(value) is number
