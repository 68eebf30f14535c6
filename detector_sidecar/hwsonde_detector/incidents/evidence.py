"""What is known of an incident as one archive of files, for a ticket or a vendor's support. Pure: equal content gives equal bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.redaction import Replacing
from hwsonde_detector.signals.entities import Split, plan_split
from hwsonde_detector.types import Entity, SampleBatch, Series

_INDENT = 1
_NOTHING = Replacing({})


def evidence_files(
    incident: Mapping[str, Any], version: str, notes: Iterable[str] = (), replacing: Replacing = _NOTHING
) -> dict[str, bytes]:
    """The files that every archive has.

    Parameters
    ----------
    incident
        The JSON of the incident's page.
    version
        Of the program.
    notes
        What is not among the files, or was done to them, a sentence each.
    replacing
        Puts other names in.
    """
    return {
        "incident.json": as_json(replacing.of(incident)),
        "summary.txt": replacing.of(_summary(incident, version, notes)).encode("utf-8", "replace"),
    }


def as_json(value: object) -> bytes:
    """Readable JSON, UTF-8."""
    return (
        json.dumps(value, indent=_INDENT, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
        + b"\n"
    )


def samples_of(batches: Iterable[SampleBatch], entity: Entity) -> Iterator[tuple[Series, list[tuple[float, str]]]]:
    """Raw samples of one host: each of its series in each batch, with pairs of seconds and text as Prometheus gives them.

    Parameters
    ----------
    batches
        In order of time; series of other hosts may be among them.
    entity
        The host, which its series make: also those that lack its label and are named after their instance.
    """
    names = tuple(name for name, _ in entity.labels)
    split: Split | None = None
    own: list[int] = []
    for batch in batches:
        if split is None or not split.fits(batch, names):
            split = plan_split(batch.series, names)
            own = [number for made, numbers, _ in split.parts if made == entity for number in numbers.tolist()]
        for number in own:
            part = slice(int(batch.offsets[number]), int(batch.offsets[number + 1]))
            times, values = batch.times[part].tolist(), batch.values[part].tolist()
            if times:
                yield (
                    batch.series[number],
                    [(at_ms / 1000, repr(value)) for at_ms, value in zip(times, values, strict=True)],
                )


def packed(entry: Entry, files: Mapping[str, bytes]) -> bytes:
    """A gzip'ed tar archive: the files below the incident's id, and a list of their SHA-256 sums."""
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted({**files, "SHA256SUMS": sums.encode()}.items()):
            member = tarfile.TarInfo(f"{entry.id}/{name}")
            member.size, member.mode = len(content), 0o644
            member.mtime = entry.onset_ms // 1000
            archive.addfile(member, io.BytesIO(content))
    # The time in the head would make equal archives differ.
    return gzip.compress(buffer.getvalue(), 6, mtime=0)


def _summary(incident: Mapping[str, Any], version: str, notes: Iterable[str]) -> str:
    one = incident["incident"]
    lines = [
        one["title"] or one["identity"],
        "",
        f"incident  {one['id']} ({one['state']})",
        f"host      {one['host']}",
        f"part      {one['subsystem']}{' ' + one['device']['name'] if one['device'] else ''}",
        f"began     {_when(one['onset_ms'])}, plus or minus {incident.get('uncertainty_ms', 0)} ms",
        f"told of   {_when(one['told_ms'])}",
        f"ended     {_when(one['end_ms'])}",
    ]
    for cause in incident.get("causes", ()):
        lines += ["", f"Cause {cause['rank']}: {cause['sentence']}"]
        lines += [f"  {it['channel']}: {it['sentence']} ({it['role']})" for it in cause["channels"]]
        lines += [f"  next: {step}" for step in cause["next"]]
        lines += [f"  peers: {cause['others']['sentence']}"]
    for setting in incident.get("settings", ()):
        usual = f", peers have {setting['usual']}" if setting["usual"] is not None else ""
        before = f", before {_when(setting['changed_at_ms'])} {setting['previous']}" if setting["changed_at_ms"] else ""
        lines.append(f"Setting {setting['setting']} {setting['device']}: {setting['value']}{usual}{before}")
    lines += ["", *notes, f"Written by hwsonde-detector {version}. All times are UTC.", ""]
    return "\n".join(lines)


def _when(ms: int | None) -> str:
    return "not yet" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
