"""Network namespaces of the bench's own, joined to a ring by virtual cables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.children import run as run_command
from benchmarks.faults.errors import BenchError

PREFIX = "hwsonde-bench-"
SIZE = 3
NAMESPACES = Path("/run/netns")
# Of a packet, as the classifier of classic BPF reads them (linux/include/uapi/linux/filter.h): a random number.
_RANDOM = 0xFFFFF000 + 56
_LOAD, _AT_LEAST, _RETURN = 0x20, 0x35, 0x06
_DROP, _GO_ON = 2, 0xFFFFFFFF

Runner = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Link:
    """The cable from member ``number`` to the next; data go from ``source`` to ``target``."""

    number: int

    @property
    def source(self) -> str:
        """Namespace that sends."""
        return namespace(self.number)

    @property
    def target(self) -> str:
        """Namespace that receives."""
        return namespace((self.number + 1) % SIZE)

    @property
    def near(self) -> str:
        """Device of the sender."""
        return f"hwbr{self.number}"

    @property
    def far(self) -> str:
        """Device of the receiver."""
        return f"hwbl{self.number}"

    @property
    def near_address(self) -> str:
        """Address of the sender; of the range for benchmarks, RFC 2544."""
        return f"198.18.{self.number}.1"

    @property
    def far_address(self) -> str:
        """Address of the receiver."""
        return f"198.18.{self.number}.2"


LINKS = tuple(Link(number) for number in range(SIZE))


def namespace(number: int) -> str:
    """Name of a member's network namespace."""
    return f"{PREFIX}{number}"


class Network:
    """The ring of namespaces.

    Parameters
    ----------
    run
        Runs a command and gives its output; raises `BenchError`.
    """

    def __init__(self, run: Runner = run_command) -> None:
        self.run = run

    @staticmethod
    def missing() -> str | None:
        """Why namespaces cannot be made here, None where they can."""
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                return f"{tool} is not installed (package iproute2)"
        return None

    def build(self) -> None:
        """Make namespaces and cables.

        Raises
        ------
        BenchError
            The host does not let us; what was made is removed.
        """
        try:
            for number in range(SIZE):
                self.run(["ip", "netns", "add", namespace(number)])
                self.run(["ip", "-n", namespace(number), "link", "set", "lo", "up"])
            for link in LINKS:
                self._cable(link)
        except BenchError:
            self.remove()
            raise

    def _cable(self, link: Link) -> None:
        ends = f"{link.near} netns {link.source} type veth peer name {link.far} netns {link.target}"
        self.run(["ip", "link", "add", *ends.split()])
        for name, device, address in (
            (link.source, link.near, link.near_address),
            (link.target, link.far, link.far_address),
        ):
            self.run(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", device])
            # Packets as on a wire, not the large ones that a virtual cable passes on whole: loss is counted by packet.
            with suppress(BenchError):
                self.run(["ip", "-n", name, "link", "set", device, "gso_max_segs", "1"])
            self.run(["ip", "-n", name, "link", "set", device, "up"])

    def remove(self) -> list[str]:
        """Remove every namespace of ours, and with it its devices; give those that could not be."""
        left = []
        for name in sorted(path.name for path in NAMESPACES.glob(f"{PREFIX}*")) if NAMESPACES.is_dir() else []:
            try:
                self.run(["ip", "netns", "delete", name])
            except BenchError:
                left.append(f"namespace {name}")
        return left

    def lose(self, link: Link, share: float) -> None:
        """Drop a share of the packets that arrive at a cable's far end, at random.

        Notes
        -----
        The kernel's own tool for this, netem, is often not built in, nor is a table of nftables always at hand. A classifier of a few
        instructions of classic BPF that says "drop" itself needs neither.
        """
        self.run(["tc", "-n", link.target, "qdisc", "add", "dev", link.far, "clsact"])
        place = f"dev {link.far} ingress protocol all prio 1 bpf direct-action bytecode"
        self.run(["tc", "-n", link.target, "filter", "add", *place.split(), drop_program(share)])

    def lose_nothing(self, link: Link) -> None:
        """End `lose`."""
        with suppress(BenchError):
            self.run(["tc", "-n", link.target, "qdisc", "delete", "dev", link.far, "clsact"])

    def limit(self, link: Link, rate: int) -> None:
        """Let a cable carry so many bytes a second at most (a token bucket)."""
        bucket = f"dev {link.near} root tbf rate {8 * rate}bit burst {max(rate // 100, 16_000)} latency 100ms"
        self.run(["tc", "-n", link.source, "qdisc", "add", *bucket.split()])

    def limit_not(self, link: Link) -> None:
        """End `limit`."""
        with suppress(BenchError):
            self.run(["tc", "-n", link.source, "qdisc", "delete", "dev", link.near, "root"])

    def detour(self, link: Link, enter: str, leave: str) -> None:
        """Send a cable's packets into another device of the sender's; they come out of one of the receiver's."""
        self.run(["ip", "-n", link.source, "link", "set", enter, "up"])
        self.run(["ip", "-n", link.target, "link", "set", leave, "up"])
        self.run(
            ["ip", "-n", link.source, "route", "add", f"{link.far_address}/32", "dev", enter, "src", link.near_address]
        )

    def direct(self, link: Link, enter: str) -> None:
        """End `detour`."""
        with suppress(BenchError):
            self.run(["ip", "-n", link.source, "route", "delete", f"{link.far_address}/32", "dev", enter])


def drop_program(share: float) -> str:
    """Instructions that drop a share of packets, as ``tc`` takes them: random number; at least the bound: go on; else drop."""
    bound = min(max(round(share * (1 << 32)), 0), (1 << 32) - 1)
    steps = [(_LOAD, 0, 0, _RANDOM), (_AT_LEAST, 0, 1, bound), (_RETURN, 0, 0, _GO_ON), (_RETURN, 0, 0, _DROP)]
    return ",".join([str(len(steps)), *(" ".join(map(str, step)) for step in steps)])
