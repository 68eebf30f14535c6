import signal
import threading
import time
import warnings

import pytest

from hwsonde_exporter.host import IGNORED_DEVICES, IGNORED_MOUNTS
from hwsonde_exporter.patterns import compiled

GOOD = [
    "veth.*|tap[0-9]+",
    "(?!)",
    ".*",
    "hwsonde_(cpu|memory)_.*",
    ".*foo.*bar.*",
    "/(mnt|data)/[^/]+/.*",
    r"(hwsonde_\w+_total|go_.*)",
    "^hwsonde_.*$",
    "(?i:CPU).*",
    r"(\w|_)*x",
    r"(/[^/]*)*\.x",
    r"hwsonde_(([a-z])+_)*[A-Z]",
    IGNORED_DEVICES.pattern,
    IGNORED_MOUNTS.pattern,
]
SLOW = [
    r"(a+)+!!",
    r"(\w+)*x",
    r"(.*)*x",
    r".*.*.*.*.*.*.*.*x",
    r"([a-z]+_?)+\d",
    r"(\s*\S*)*\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_people_write_is_quick(text: str) -> None:
    began = time.process_time()
    assert compiled(text).pattern == text
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize("text", SLOW)
def test_what_would_stop_all_threads_is_refused_soon(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="takes too long"):
        compiled(text, ["hwsonde_memory_pressure_stalled_seconds_total"])
    assert time.process_time() - began < 3


@pytest.mark.parametrize("text", ["", "(", "*", "a{99999999999}", "[z-a]", "(?P<x", "\\"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        compiled(text)


@pytest.mark.parametrize("text", ["[[:lower:]]+[0-9]", "eth[^[:digit:]]", "veth[a[:digit:]]", "[[a", "[a&&b]", "[a--]"])
def test_a_set_that_others_read_otherwise_is_refused_and_why(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"such as \[\[:lower:\]\]"):
            compiled(text)


@pytest.mark.parametrize("text", [r"[\[a]+", r"a\[[:b]", "[^[]+", "[]a]", "[a-z_-]+"])
def test_other_sets_are_as_they_were(text: str) -> None:
    assert compiled(text).pattern == text


def test_names_that_are_known_are_tried_themselves() -> None:
    text = r"(xyz?)+(zx|y)*q"
    compiled(text)
    with pytest.raises(ValueError, match="takes too long"):
        compiled(r"((xy)+z?)+q", ["xy" * 60])


def test_the_timer_and_its_handler_are_put_back() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    compiled("a.*")
    with pytest.raises(ValueError, match="too long"):
        compiled(SLOW[0])
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_another_thread_compiles_without_a_trial() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(compiled(SLOW[0])))
    thread.start()
    thread.join()
    assert found[0].pattern == SLOW[0]
