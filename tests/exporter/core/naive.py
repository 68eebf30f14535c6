"""Slow and obvious versions of what the core does fast."""

from __future__ import annotations

from collections.abc import Sequence

from hwsonde_exporter.metric import Kind, Sample


def naive_text(samples: Sequence[Sample]) -> str:
    """Text format 0.0.4, line by line; families in order of first appearance, duplicates dropped."""
    names = list(dict.fromkeys(sample.metric.name for sample in samples))
    lines, seen = [], set()
    for name in names:
        family = [sample for sample in samples if sample.metric.name == name]
        metric = family[0].metric
        help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"# HELP {name} {help_text}")
        lines.append(f"# TYPE {name} {metric.kind.value}")
        for labels in dict.fromkeys(sample.labels[: len(metric.labels)] for sample in family):
            group = [sample for sample in family if sample.labels[: len(metric.labels)] == labels]
            if metric.kind is Kind.HISTOGRAM:
                group.sort(
                    key=lambda sample: (metric.suffixes.index(sample.suffix), float((*sample.labels, "0")[len(labels)]))
                )
            for sample in group:
                if (name, sample.labels, sample.suffix) in seen:
                    continue
                seen.add((name, sample.labels, sample.suffix))
                escaped = [
                    value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for value in sample.labels
                ]
                names_of = metric.label_names(sample.suffix)
                pairs = ",".join(f'{label}="{value}"' for label, value in zip(names_of, escaped, strict=True))
                lines.append(f"{name}{sample.suffix}{'{' + pairs + '}' if pairs else ''} {sample.value!r}")
    return "".join(f"{line}\n" for line in lines)


def naive_extremes(observations: Sequence[tuple[int, float]], second: int, window: int) -> tuple[float, float] | None:
    """Least and greatest of (second, value) observations in the trailing window."""
    kept = [value for when, value in observations if second - window < when <= second]
    return (min(kept), max(kept)) if kept else None
