"""What the pictures are taken of: counters that grow and never fall, a GPU that gets hot, a scene that is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from grafana.generate import BOARDS
from grafana.rendering.table import Shown
from quickstart.child import Program
from quickstart.layout import Options
from tests.e2e.house import free_ports
from tests.nvml_shim.recording import lines
from tests.pictures import __main__ as pictures
from tests.pictures.fleet import MACHINES, TRAINING, Fleet
from tests.pictures.gallery import COMMAND, page
from tests.pictures.growing import Growing, growing_files
from tests.pictures.hot_gpu import HELD, HOT, answers, recorded
from tests.pictures.story import Scene, StoryError
from tests.pictures.training_host import HERTZ, Stat

ROOT = Path(__file__).resolve().parents[2]
BOARD_PICTURES = ROOT / "docs" / "images" / "boards"
# The board of a host has 57 panels; the others are half as large.
LARGEST = 300_000


def random() -> np.random.Generator:
    return np.random.default_rng(3)


def test_counters_grow_at_their_own_rate_and_the_rest_stays() -> None:
    text = b"eth0: 86400000 12 50% 00001111\nib1 18446744073709551615 4000\n"
    growing = Growing(text, 864.0, random())
    assert growing.text() == text
    for _ in range(40):
        growing.grow(0.25)
    first, second = growing.values
    assert first - 86_400_000 == pytest.approx(1_000_000, rel=0.05)
    assert 4000 < second < 4150
    assert growing.text() == b"eth0: %d 12 50%% 00001111\nib1 18446744073709551615 %d\n" % (first, second)
    assert len(Growing(text, 864.0, random(), every=True).values) == 4


def test_files_without_counters_are_let_go(tmp_path: Path) -> None:
    for name, text in (("state", "4: ACTIVE\n"), ("data", "123456\n"), ("zero", "0\n")):
        (tmp_path / name).write_text(text)
    (file,) = growing_files(sorted(tmp_path.iterdir()), 100.0, random())
    file.tick(10)
    file.close()
    assert int((tmp_path / "data").read_text()) > 123456


def test_processors_are_charged_for_the_time_that_passes(tmp_path: Path) -> None:
    template = ROOT / "tests/fixtures/hosts/node192/proc/stat"
    (tmp_path / "stat").write_bytes(template.read_bytes())
    stat = Stat(tmp_path / "stat", random())
    for _ in range(8):
        stat.tick(0.25)
    stat.close()

    def charged(path: Path) -> list[int]:
        rows = [line.split() for line in path.read_text().splitlines() if line.startswith("cpu")]
        return [sum(map(int, row[1:])) for row in rows]

    passed = [after - before for before, after in zip(charged(template), charged(tmp_path / "stat"), strict=True)]
    assert passed[0] == sum(passed[1:])
    assert all(2 * HERTZ - 12 <= one <= 2 * HERTZ for one in passed[1:])


def test_a_gpu_that_gets_hot_answers_in_a_form_that_the_library_takes() -> None:
    recording = recorded()
    slowed = {"start": HELD, "rate": 0.9e9}
    for part in (0.0, 0.3, 1.0):
        calls: dict[str, Any] = dict(recording["devices"][HOT]["calls"])
        for function, answer in answers(part, slowed).items():
            known = calls.get(function)
            calls[function] = {**known, **answer} if isinstance(known, dict) and isinstance(answer, dict) else answer
        devices = [
            {**device, "calls": calls if place == HOT else device["calls"]}
            for place, device in enumerate(recording["devices"])
        ]
        assert lines({**recording, "devices": devices})
    assert answers(1.0, slowed)["nvmlDeviceGetTemperature"]["0"]["mean"] == 88
    assert "nvmlDeviceGetTemperature" not in answers(0.0, slowed)
    assert "nvmlDeviceGetCurrentClocksEventReasons" not in answers(0.3, slowed)


def test_a_scene_is_kept_and_found_again(tmp_path: Path) -> None:
    scene = Scene(1000.0, 2000.0, 1800.0, "gpu_temperature{gpu=3}", "20261130T120000Z-0123456789ab")
    scene.save(tmp_path / pictures.SCENE)
    assert Scene.load(tmp_path / pictures.SCENE) == scene
    assert pictures._scene(tmp_path) == scene
    assert scene.shown_from == 1580
    assert set(scene.of_board()) <= {board.name for board in BOARDS}
    (tmp_path / pictures.SCENE).unlink()
    (tmp_path / "prometheus").mkdir()
    with pytest.raises(StoryError, match="not whole"):
        pictures._scene(tmp_path)
    assert pictures._scene(tmp_path / "new", lambda _: scene) == scene


def test_all_hosts_are_scraped_as_one_cluster(tmp_path: Path) -> None:
    options = Options(tmp_path, free_ports(), MACHINES[0], "lab")

    class Written(Fleet):
        def prepare(self) -> None:
            self._prepare()
            assert self._lock
            self._lock.close()

    programs = [Program(name, ("true",), 1000 + place, "/") for place, name in enumerate((*MACHINES, TRAINING))]
    Written(options, print, programs).prepare()
    jobs = yaml.safe_load((options.config / "prometheus.yml").read_text())["scrape_configs"]
    (exporters,) = [job for job in jobs if job["job_name"] == "hwsonde-exporter"]
    assert [one["labels"] for one in exporters["static_configs"]] == [
        {"cluster": "lab", "node": name} for name in (*MACHINES, TRAINING)
    ]


def test_the_gallery_shows_every_board_and_panel() -> None:
    text = page([Shown("gpu", "Use", "Clock", "timeseries", 8)])
    for board in BOARDS:
        assert f"![The board {board.name}]({board.name}.png)" in text
        assert f"({board.name}-light.png)" in text
    assert text.endswith("| gpu | Use | Clock | 8 lines |\n")


@pytest.mark.parametrize("board", [board.name for board in BOARDS])
@pytest.mark.parametrize("ending", ["", "-light"])
def test_every_board_has_pictures_of_a_size_that_can_be_kept(board: str, ending: str) -> None:
    picture = BOARD_PICTURES / f"{board}{ending}.png"
    assert 10_000 < picture.stat().st_size <= LARGEST
    assert picture.name in (BOARD_PICTURES / "README.md").read_text(encoding="utf-8")


def test_no_panel_of_the_pictures_is_empty() -> None:
    text = (BOARD_PICTURES / "README.md").read_text(encoding="utf-8")
    assert text.startswith(page([])), f"run: {COMMAND}"
    rows = text.removeprefix(page([])).splitlines()
    assert len(rows) > 150
    shown = re.compile(r"\| [1-9]\d* (line|row|number)s? \|$")
    assert [row for row in rows if not shown.search(row)] == []
