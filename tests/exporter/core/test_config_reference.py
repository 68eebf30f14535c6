from pathlib import Path

from hwsonde_exporter.config_reference import main, reference
from hwsonde_exporter.options import options
from hwsonde_exporter.registry import load_collectors
from tests.exporter.core.test_cli import run

PAGE = Path(__file__).parents[3] / "docs" / "exporter-configuration.md"


def test_the_reference_is_current() -> None:
    how = "run: python -m hwsonde_exporter.config_reference docs/exporter-configuration.md"
    assert PAGE.read_text(encoding="utf-8").splitlines() == reference().splitlines(), how


def test_it_names_every_option_and_collector() -> None:
    text = reference()
    kinds = load_collectors()
    for key in options(kinds):
        name = key.removeprefix("collector.")
        assert f"| `{name if name in kinds else key}` |" in text, key


def test_help_names_every_option() -> None:
    text = run("--help").stdout
    for key in options(load_collectors()):
        assert f"--{key}" in text


def test_it_is_written_where_it_is_told(tmp_path: Path) -> None:
    assert main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == reference()
    assert main([]) == 2
