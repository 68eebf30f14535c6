"""Personal details out of a recorded host: names, numbers and addresses of people, machines and networks, replaced consistently.

The same text becomes the same other text everywhere, in contents and in names of files, so that a capture still fits
together: a device's name in a table leads to its directory. What a replacement looks like has the form of what it replaces.
Rather too much is replaced than too little; versions, models and everything that is counted stay as they are.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from hwsonde_exporter.privacy import Level, Privacy

_UUID = re.compile(
    r"(?:(?<![0-9A-Fa-f])|(?<=pod))[0-9A-Fa-f]{8}([-_])[0-9A-Fa-f]{4}\1[0-9A-Fa-f]{4}\1[0-9A-Fa-f]{4}\1[0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
)
_HARDWARE_ADDRESS = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}(?![0-9A-Fa-f:])")
# Four groups are the identity of an RDMA device; the eight of its ports are IPv6 addresses. PCI addresses have groups of other lengths.
_GUID = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}(?![0-9A-Fa-f:])")
_IPV6 = re.compile(r"(?<![0-9A-Za-z:.])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]{1,4}:){7})[0-9A-Fa-f:]{3,39}(?![0-9A-Za-z:])")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_SOCKET = re.compile(r"(?<![0-9A-Fa-f])[0-9A-F]{8}(?=:[0-9A-F]{4}(?![0-9A-Fa-f]))")
_LONG = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{32,}|[0-9A-F]{32,})(?![0-9A-Za-z])")
_NAMED_AFTER_ADDRESS = re.compile(r"(?<![0-9A-Za-z])(enx|wlx|wwx)([0-9a-f]{12})(?![0-9A-Za-z])")
_WORLD_WIDE = re.compile(
    r"(?<![0-9A-Za-z])(eui\.|naa\.|t10\.|nvme\.|0x(?=[56][0-9a-f]{15}(?![0-9A-Za-z])))([0-9A-Za-z_.-]{12,})"
)
_USER = re.compile(r"((?<![0-9A-Za-z])(?:user-|user@|uid_|uid-|run-u)|/run/user/)(\d+)")
_MAIL = re.compile(r"[\w.+-]+@(?!\d+\.)[\w-]+(?:\.[\w-]+)+")
_UNIT_SUFFIXES = (".service", ".slice", ".scope", ".socket", ".mount", ".timer", ".target")

_FIRST_USER = 1000  # numbers below are the system's
# Every kernel's own process: by its name it is seen whether processes are those of the host.
_KERNEL = "kthreadd"
_KEPT_IPV4 = re.compile(r"127\.|0\.0\.0\.0\Z|255\.")

# Files whose whole content is somebody's: by their last name.
_SERIALS = frozenset((
    "serial", "serial_number", "sn", "board_serial", "chassis_serial", "product_serial", "board_asset_tag", "chassis_asset_tag",
    "product_asset_tag", "product_uuid", "asset_tag", "wwid", "wwn", "wwpn", "wwnn", "unique_id", "uuid", "eui", "nguid", "ifalias",
    "phys_port_id", "phys_switch_id", "machine-id", "boot_id", "port_name", "node_name", "node_desc",
))  # fmt: skip
# Files in which four numbers with dots between are a version.
_VERSIONS = frozenset(
    (
        "version",
        "fw_ver",
        "firmware_rev",
        "firmware_version",
        "vbios_version",
        "osrelease",
        "driver_version",
        "bios_version",
    )
)
# Filesystems without a disk or a server behind them.
_PSEUDO = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl", "hugetlbfs",
    "mqueue", "nsfs", "overlay", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tmpfs", "tracefs",
))  # fmt: skip
_SYSTEM_PLACES = re.compile(r"/((proc|sys|dev|run|boot)(/(?!user/)[A-Za-z0-9._-]+)*|run/user/\d+)?\Z")
_LAYERS = re.compile(r"((?:lower|upper|work)dir)=([^,\s]+)")
_MOUNT_FILES = frozenset(("mounts", "mountinfo", "mountstats", "fstab"))
# What of the kernel's command line is kept with its value; of the rest the key is.
_PARAMETERS = re.compile(
    r"(amd_iommu|amd_pstate|apparmor|audit|cgroup\w*|clocksource|console|cpufreq\.\w+|cpuidle\.\w+|crashkernel|default_hugepagesz|hpet|hugepages|hugepagesz"
    r"|idle|intel_idle\.max_cstate|intel_iommu|intel_pstate|iommu(\.\w+)?|irqaffinity|isolcpus|kpti|maxcpus|mce|mitigations|module_blacklist|modprobe\.blacklist"
    r"|nmi_watchdog|nohz|nohz_full|noibrs|noibpb|nopti|nosmt|nosoftlockup|nospectre_v\d|nr_cpus|numa_balancing|nvidia[\w.-]*|panic|pci|pcie_aspm(\.\w+)?|pcie_ports"
    r"|preempt|processor\.max_cstate|psi|quiet|rcu_nocbs|rcutree\.\w+|ro|rw|selinux|skew_tick|spectre_v2|swapaccount|swiotlb|systemd\.unified_cgroup_hierarchy"
    r"|transparent_hugepage|tsc|tsx|watchdog)\Z"
)
_PLAIN_VALUE = re.compile(r"([0-9]{1,6}|0x[0-9a-f]{1,8}|on|off|yes|no|y|n|auto|force|none|always|never|full|\s*)\Z")
_OPTIONS = re.compile(
    r"(?:^|(?<=,))(addr|clientaddr|mountaddr|username|user|domain|workgroup|cruid|uid|gid|mds_namespace|name|secret|password|passwd|pass|credentials|token|mgs|source)=[^,\s]+"
)
_TELLING = frozenset(("uuid", "mac", "address", "identity", "serial", "mail", "host", "user", "command"))
_DESCRIPTIONS = {
    "uuid": "UUIDs", "mac": "hardware addresses", "address": "network addresses", "identity": "long identities", "serial": "serial numbers",
    "uid": "user numbers", "mail": "mail addresses", "host": "host names", "user": "user names", "process": "process names",
    "command": "command lines", "parameter": "kernel parameters", "mount": "mount points, servers and shares", "unit": "names of pods",
}  # fmt: skip


class Anonymiser:
    """Replaces personal details in contents and names.

    Parameters
    ----------
    hosts
        Names of this host, long and short.
    users
        Names of its users.
    key
        Secret for pseudonyms of mount points; another one for each capture, so that two captures cannot be joined.
    """

    def __init__(self, hosts: Iterable[str], users: Iterable[str], key: bytes) -> None:
        self._privacy = Privacy(Level.STRICT, key)
        self._known: dict[tuple[str, str], str] = {}
        self._numbers: Counter[str] = Counter()
        self._hosts = _words(hosts, 3)
        self._users = _words(users, 3)
        self.replaced: Counter[str] = Counter()

    @property
    def originals(self) -> list[str]:
        """What was replaced and must not occur anywhere, in lower case, as far as it is long enough to be told from anything else."""
        found = []
        for (kind, text), new in self._known.items():
            # Names of processes and parts of mounts are words of programs too; a serial number has digits.
            telling = kind in _TELLING and (kind != "serial" or any(map(str.isdigit, text)))
            if telling and len(text) >= 8 and text != new:
                found.append(text.lower())
        return found

    def summary(self) -> list[str]:
        """What was replaced, one line for each kind of detail."""
        return [f"{count} {_DESCRIPTIONS[kind]}" for kind, count in sorted(self._numbers.items()) if count]

    def name(self, part: str) -> str:
        """One part of a path."""
        return self._general(part, version=False)

    def serial(self, text: str) -> str:
        """A serial number; "0" and its like, which say that there is none, stay."""
        return self._replace("serial", text) if text.strip().strip("0") else text

    def path(self, parts: Sequence[str]) -> tuple[str, ...]:
        """A path, part by part; below the places where pods and users have their folders their names go too."""
        found = []
        for place, part in enumerate(parts):
            new = self.name(part)
            if place >= 3 and tuple(parts[place - 3 : place]) == ("var", "log", "pods"):
                new = "_".join(
                    self._replace("unit", text) if number < 2 else text for number, text in enumerate(new.split("_"))
                )
            found.append(new)
        return tuple(found)

    def content(self, path: Sequence[str], data: bytes) -> bytes:
        """Content of the file at this path below ``proc``, ``sys`` or ``root``."""
        parts = tuple(path)
        leaf = parts[-1]
        if leaf == "config" and parts[0] == "sys":
            data = without_device_serial(data)
        text = data.decode("latin-1")
        if leaf in _SERIALS:
            text = self._whole(text, "serial") if text.strip().strip("0") else text
        elif parts[-3:-1] == ("sys", "kernel") and leaf in {"hostname", "domainname"}:
            text = self._whole(text, "host")
        elif parts == ("proc", "cmdline"):
            # What stands behind "--" is for the first program, not for the kernel.
            text = " ".join(map(self._parameter, text.partition(" -- ")[0].split())) + "\n"
        elif leaf in _MOUNT_FILES:
            text = self._mounts(text, leaf)
        elif len(parts) > 2 and parts[0] == "proc" and (parts[1].isdigit() or parts[1] == "self"):
            text = self._process(text, leaf)
        return self._general(text, version=leaf in _VERSIONS).encode("latin-1", "replace")

    def _process(self, text: str, leaf: str) -> str:
        """Content of a process's file without its name and its user."""
        if leaf in {"cmdline", "environ"}:
            return self._replace("command", text) + "\0" if text else text
        if leaf == "comm":
            return self._whole(text, "process")
        if leaf == "stat":
            head, _, rest = text.partition("(")
            name, closing, tail = rest.rpartition(")")
            return f"{head}({self._replace('process', name)}){tail}" if closing else text
        if leaf == "status":
            text = re.sub(r"\A(Name:\t)(.*)", lambda match: match[1] + self._replace("process", match[2]), text)
            return re.sub(r"(?m)^((?:Uid|Gid|Groups):)(.*)$", lambda match: match[1] + self._numbers_in(match[2]), text)
        return text

    def _general(self, text: str, *, version: bool) -> str:
        """Everything that has a form by which it is known."""
        text = _UUID.sub(self._uuid, text)
        text = _HARDWARE_ADDRESS.sub(lambda match: self._replace("mac", match[0]), text)
        text = _NAMED_AFTER_ADDRESS.sub(self._named_after_address, text)
        text = _GUID.sub(lambda match: self._replace("address", match[0]), text)
        text = _IPV6.sub(lambda match: self._replace("address", match[0]) if _is_ipv6(match[0]) else match[0], text)
        if not version:
            text = _IPV4.sub(
                lambda match: match[0] if _KEPT_IPV4.match(match[0]) else self._replace("address", match[0]), text
            )
        text = _SOCKET.sub(lambda match: self._replace("address", match[0]), text)
        text = _LONG.sub(lambda match: self._replace("identity", match[0]), text)
        text = _WORLD_WIDE.sub(lambda match: match[1] + self._replace("serial", match[2]), text)
        text = _USER.sub(lambda match: match[1] + self._user_number(match[2]), text)
        text = _MAIL.sub(
            lambda match: match[0] if match[0].endswith(_UNIT_SUFFIXES) else self._replace("mail", match[0]), text
        )
        if self._hosts is not None:
            text = self._hosts.sub(lambda match: self._replace("host", match[0].lower()), text)
        return text

    def _uuid(self, match: re.Match[str]) -> str:
        # In the names of control groups it is written with the other separator.
        return self._replace("uuid", match[0].replace("_", "-")).replace("-", match[1])

    def _named_after_address(self, match: re.Match[str]) -> str:
        address = ":".join(match[2][place : place + 2] for place in range(0, 12, 2))
        return match[1] + self._replace("mac", address).replace(":", "")

    def _mounts(self, text: str, leaf: str) -> str:
        text = "\n".join(self._mount(line, leaf) for line in text.split("\n"))
        return self._users.sub(lambda match: self._replace("user", match[0]), text) if self._users is not None else text

    def _mount(self, line: str, leaf: str) -> str:
        """One line of a table of mounts without places, servers and shares; pseudo filesystems are the same on every host."""
        fields = line.split(" ")
        columns = _mount_columns(fields, leaf)
        if columns is None:
            return line
        kind, source, places = columns
        # Whoever mounts a pseudo filesystem gives it any name for a source, often its kind.
        if fields[source] != fields[kind]:
            fields[source] = self._source(fields[source])
        if fields[kind] not in _PSEUDO:
            fields = [_OPTIONS.sub(self._mount_option, word) for word in fields]
        if not fields[kind].startswith("cgroup"):
            for place in places:
                fields[place] = self._place(fields[place])
        return _LAYERS.sub(
            lambda match: f"{match[1]}={':'.join(map(self._place, match[2].split(':')))}", " ".join(fields)
        )

    def _mount_option(self, match: re.Match[str]) -> str:
        return f"{match[1]}={self._option(match[1], match[0].partition('=')[2])}"

    def _place(self, path: str) -> str:
        if not path.startswith("/") or _SYSTEM_PLACES.match(path):
            return path
        return self._remember("mount", path, self._privacy.place(path))

    def _source(self, text: str) -> str:
        return self._remember("mount", text, self._privacy.source(text))

    def _option(self, key: str, value: str) -> str:
        if key in {"uid", "gid", "cruid"}:
            return self._user_number(value) if value.isdigit() else value
        if key.endswith("addr"):
            return self._replace("address", value)
        return self._remember("mount", value, self._privacy.pseudonym(value))

    def _parameter(self, word: str) -> str:
        key, equals, value = word.partition("=")
        if not equals or _PARAMETERS.match(key) or _PLAIN_VALUE.match(value):
            return word
        return f"{key}={self._remember('parameter', value, 'replaced')}"

    def _whole(self, text: str, kind: str) -> str:
        """A file's one line, its blanks around it kept."""
        inner = text.strip("\0\n ")
        return text.replace(inner, self._replace(kind, inner)) if inner and inner != "(none)" else text

    def _numbers_in(self, text: str) -> str:
        return re.sub(r"\d+", lambda match: self._user_number(match[0]), text)

    def _user_number(self, text: str) -> str:
        if len(text) > 10 or not _FIRST_USER <= int(text) < 65534:
            return text
        return self._replace("uid", text)

    def _replace(self, kind: str, text: str) -> str:
        if not text.strip("0:-_. ") or not text.lower().strip("f:-"):
            return text  # nothing, all zeros or a broadcast address: it tells nobody from another
        if kind == "identity" and len(set(text)) < 5:
            return text  # a mask of CPUs
        if kind == "process" and text == _KERNEL:
            return text
        key = (kind, text if kind in {"process", "user", "unit"} else text.lower())
        if key not in self._known:
            self._numbers[kind] += 1
            self._known[key] = _FORMS[kind](self._numbers[kind], text)
        self.replaced[kind] += 1
        return self._known[key]

    def _remember(self, kind: str, text: str, new: str) -> str:
        if text != new:
            if (kind, text) not in self._known:
                self._numbers[kind] += 1
            self._known[kind, text] = new
            self.replaced[kind] += 1
        return new


def _mount_columns(fields: Sequence[str], leaf: str) -> tuple[int, int, tuple[int, ...]] | None:
    """Places of kind, source and paths in a line of a table of mounts (proc_pid_mountinfo(5)); None if it is no such line."""
    if leaf == "mountinfo":
        dash = fields.index("-", 6) if "-" in fields[6:] else len(fields)
        return (dash + 1, dash + 2, (3, 4)) if len(fields) > dash + 2 else None
    if leaf == "mountstats":
        return (7, 1, (4,)) if len(fields) > 7 and fields[0] == "device" else None
    return (2, 0, (1,)) if len(fields) > 3 else None


def without_device_serial(config: bytes) -> bytes:
    """Configuration space of a PCI device, with the serial number in it (made of its hardware address) set to zeros."""
    place, seen = 0x100, set()
    while 0x100 <= place <= len(config) - 12 and place not in seen:
        seen.add(place)
        head = int.from_bytes(config[place : place + 4], "little")
        if head & 0xFFFF == 3:  # PCI_EXT_CAP_ID_DSN, in linux/pci_regs.h
            config = config[: place + 4] + bytes(8) + config[place + 12 :]
        place = head >> 20
    return config


def _words(texts: Iterable[str], least: int) -> re.Pattern[str] | None:
    """Pattern of these words; short ones and those that mean something to everybody are no names."""
    common = {
        "localhost",
        "localdomain",
        "root",
        "none",
        "host",
        "node",
        "server",
        "linux",
        "debian",
        "ubuntu",
        "user",
        "users",
        "data",
        "cpu",
        "gpu",
    }
    chosen = sorted(
        {text for text in texts if len(text) >= least and text.lower() not in common}, key=len, reverse=True
    )
    if not chosen:
        return None
    return re.compile(rf"(?<![0-9A-Za-z])(?:{'|'.join(map(re.escape, chosen))})(?![0-9A-Za-z])", re.IGNORECASE)


def _is_ipv6(text: str) -> bool:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def _like(text: str, digits: str) -> str:
    """Digits in the places where the text has hexadecimal digits, from the right; zeros in the others."""
    supply = list(digits)
    return "".join(
        character if character in ":-_." else (supply.pop() if supply else "0") for character in reversed(text)
    )[::-1]


def _address(number: int, text: str) -> str:
    if "." in text:
        return f"198.18.{number >> 8 & 255}.{number & 255}"
    if "::" in text:
        head = "fe80" if text.lower().startswith("fe80") else "2001:db8"
        return f"{head}::{number:x}"
    # The first group tells what kind of address it is.
    kept = text[:5] if text[4:5] == ":" and text[:4].lower() in {"fe80", "0000"} else ""
    return kept + _like(text[len(kept) :], f"{number:x}")


_FORMS: dict[str, Callable[[int, str], str]] = {
    "uuid": lambda number, text: _like(text, f"{number:x}"),
    # The second digit 2 marks an address that was not given by a maker.
    "mac": lambda number, text: "02" + _like(text[2:], f"{number:x}"),
    "address": _address,
    "identity": lambda number, text: _like(text, f"{number:x}"),
    "serial": lambda number, _: f"SERIAL{number:04d}",
    "uid": lambda number, _: str(_FIRST_USER + number - 1),
    "mail": lambda number, _: f"somebody{number}@example.org",
    "host": lambda number, _: f"host{number}",
    "user": lambda number, _: f"user{number}",
    "process": lambda number, _: f"task{number}",
    "command": lambda number, _: f"command{number}",
    "unit": lambda number, _: f"name{number}",
}
