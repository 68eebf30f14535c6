"""Writes what operators get and what is made from the programs and rules: ``python -m deploy.generate``, in the folder of the checkout."""

from __future__ import annotations

from pathlib import Path

from deploy.generators import alerts, completion, prometheus_rule

ROOT = Path(__file__).resolve().parents[1]


def outputs() -> dict[str, str]:
    """Path from the checkout's folder, and text, of every file that is made here."""
    return {
        **{f"deploy/completion/{name}": text for name, text in completion.files().items()},
        **{f"deploy/kubernetes/{name}": text for name, text in prometheus_rule.files().items()},
        **{f"docs/{name}": text for name, text in alerts.files().items()},
    }


def main() -> int:
    """Write them."""
    for name, text in outputs().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
