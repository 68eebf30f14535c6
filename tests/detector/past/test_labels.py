"""Labelled faults: what a file may hold, and one line for what it may not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.labels import NO_KIND, Label, parse_labels
from hwsonde_detector.types import Entity, Subsystem

N17 = Entity((("cluster", "lab"), ("node", "n17")))


def csv(*lines: str) -> tuple[Label, ...]:
    return parse_labels("\n".join(lines).encode(), "f.csv")


def test_csv_with_everything():
    found = csv(
        "entity,start,end,kind,subsystems,seed",
        "n18,2026-11-01T00:10:00Z,2026-11-01T00:11:00Z,memory hog,memory|cpu,7",
        "",
        '"lab/n17",1793491200,1793491260.5,,,',
    )
    assert found == (
        Label("lab/n17", 1_793_491_200_000, 1_793_491_260_500, NO_KIND, (), "f.csv:4"),
        Label("n18", 1_793_491_800_000, 1_793_491_860_000, "memory hog", (Subsystem.MEMORY, Subsystem.CPU), "f.csv:2"),
    )


def test_json_with_everything():
    document = [
        {"entity": "n18", "start": "2026-11-01T00:10:00Z", "end": "2026-11-01T00:11:00Z", "kind": "x", "subsystem": "gpu", "effective": True},
        {"entity": {"node": "n17", "cluster": "lab"}, "start": 1_793_491_200, "end": 1_793_491_260.5, "subsystems": ["memory", "cpu"]},
    ]  # fmt: skip
    for body in (document, {"labels": document, "seed": 3}):
        first, second = parse_labels(json.dumps(body).encode(), "f.json")
        assert first.host == (("cluster", "lab"), ("node", "n17"))
        assert (first.start_ms, first.end_ms) == (1_793_491_200_000, 1_793_491_260_500)
        assert first.subsystems == (Subsystem.MEMORY, Subsystem.CPU)
        assert (first.name, first.place) == ("cluster=lab,node=n17", "f.json: label 2")
        assert (second.kind, second.subsystems) == ("x", (Subsystem.GPU,))


@pytest.mark.parametrize(
    ("host", "applies"),
    [
        ("n17", True),
        ("lab/n17", True),
        ("n1", False),
        ("lab", False),
        ((("node", "n17"),), True),
        ((("cluster", "lab"),), True),
        ((("cluster", "lab"), ("node", "n18")), False),
        ((("rack", "3"),), False),
    ],
)
def test_which_host_is_meant(host, applies):
    assert Label(host, 0, 1, "x", (), "f:1").applies_to(N17) == applies


GOOD = "n17,2026-11-01T00:10:00Z,2026-11-01T00:11:00Z"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f.csv: there is no label in it"),
        ("entity,start,end\n", "f.csv: there is no label in it"),
        ("entity,start\nn17,1\n", "f.csv:1: end is missing; needed: entity, start, end"),
        (f"{GOOD}\n{GOOD}\n", "f.csv:1: entity, start, end is missing"),
        (f"entity,start,end,start\n{GOOD},1\n", "f.csv:1: one name stands twice"),
        (f"entity,start,end,subsytem\n{GOOD},cpu\n", "f.csv:1: 'subsytem' is not known, did you mean subsystem?"),
        (f"entity,start,end\n{GOOD},cpu\n", "f.csv:2: 4 fields, where the header has 3"),
        ("entity,start,end\nn17,soon,1\n", "f.csv:2: start: 'soon' is no moment; allowed: RFC 3339"),
        ("entity,start,end\nn17,1,2026-11-01T00:00:00\n", "f.csv:2: end: '2026-11-01T00:00:00' is no moment"),
        ("entity,start,end\nn17,1793491200000,1793491200001\n", "f.csv:2: start: '1793491200000' is no moment"),
        ("entity,start,end\nn17,20,10\n", "f.csv:2: it ends before it starts"),
        ("entity,start,end\n,10,20\n", "f.csv:2: entity: '' is not usable"),
        (f"entity,start,end,subsystem\n{GOOD},cpu memroy\n", "f.csv:2: subsystems: 'memroy' is not known; allowed: cpu, gpu"),
        (f"entity,start,end,kind\n{GOOD},a\tb\n", "f.csv:2: kind: 'a\\tb' is not usable"),
        ('entity,start,end\nn17,"1,2\n', "f.csv:2: this is no CSV"),
    ],
)  # fmt: skip
def test_csv_that_is_wrong_is_one_line(text, says):
    with pytest.raises(ConfigError) as caught:
        parse_labels(text.encode(), "f.csv")
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f.json:1: this is no JSON"),
        ("[\n{]", "f.json:2: this is no JSON"),
        ("[" * 100_000, "f.json:1: this is no JSON: nested too deeply"),
        ("3", "f.json: a list of objects is needed"),
        ("[3]", "f.json: a list of objects is needed"),
        ('{"faults": []}', "f.json: a list of objects is needed"),
        ("[]", "f.json: there is no label in it"),
        ('[{"entity": "n17", "start": 1}]', "f.json: label 1: end is missing"),
        ('[{"entity": 3, "start": 1, "end": 2}]', "f.json: label 1: entity: 3 is not usable"),
        ('[{"entity": {}, "start": 1, "end": 2}]', "f.json: label 1: entity: {} is not usable"),
        ('[{"entity": {"node": 3}, "start": 1, "end": 2}]', "f.json: label 1: entity: {'node': 3} is not usable"),
        ('[{"entity": "n", "start": true, "end": 2}]', "f.json: label 1: start: True is no moment"),
        ('[{"entity": "n", "start": NaN, "end": 2}]', "f.json: label 1: start: nan is no moment"),
        ('[{"entity": "n", "start": -1, "end": 2}]', "f.json: label 1: start: -1 is no moment"),
        ('[{"entity": "n", "start": 1, "end": 1' + "0" * 400 + "}]", "f.json: label 1: end: 1000"),
        ('[{"entity": "n", "start": 1, "end": 2, "subsystems": 3}]', "f.json: label 1: subsystems: 3 is no list"),
        ('[{"entity": "n", "start": 1, "end": 2, "subsystems": [[]]}]', "f.json: label 1: subsystems: [] is not known"),
        ('[{"entity": "n", "start": 1, "end": 2, "kind": 3}]', "f.json: label 1: kind: 3 is not usable"),
    ],
)
def test_json_that_is_wrong_is_one_line(text, says):
    with pytest.raises(ConfigError) as caught:
        parse_labels(text.encode(), "f.json")
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_all_problems_are_told():
    with pytest.raises(ConfigError) as caught:
        csv("entity,start,end", "n17,x,2", "n17,1,2", "n17,1,y")
    assert [line[:7] for line in str(caught.value).splitlines()] == ["f.csv:2", "f.csv:4"]


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from(["f.csv", "f.json"]))
def test_any_content_is_read_or_refused_in_words(data, name):
    try:
        found = parse_labels(data, name)
    except ConfigError as error:
        assert str(error).startswith(name)  # noqa: PT017 - both outcomes are good
    else:
        assert all(label.start_ms <= label.end_ms for label in found)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20),
            st.integers(0, 9_999_000_000),
            st.integers(0, 999_000),
            st.lists(st.sampled_from(list(Subsystem)), unique=True),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_csv_and_json_of_one_content_give_the_same(rows):
    table = ["entity;start;end;subsystems".replace(";", ",")]
    for host, start, length, names in rows:
        quoted = '"' + host.replace('"', '""') + '"'
        table.append(f'{quoted},{start},{start + length},"{",".join(names)}"')
    objects = [
        {"entity": host, "start": start, "end": start + length, "subsystems": [str(name) for name in names]}
        for host, start, length, names in rows
    ]

    def bare(found):
        return [(one.host, one.start_ms, one.end_ms, one.subsystems) for one in found]

    read = parse_labels("\n".join(table).encode(), "f.csv")
    assert bare(read) == bare(parse_labels(json.dumps(objects).encode(), "f.json"))
    assert len(read) == len(rows)
