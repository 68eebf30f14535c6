"""What to look at next, by subsystem: what an operator can do at once on the host, from the cheapest to the one that ends the question."""

from __future__ import annotations

from hwsonde_detector.types import Subsystem

RUNBOOK = "HwsondeHostAnomaly"

STEPS: dict[Subsystem, tuple[str, ...]] = {
    Subsystem.CPU: (
        "Look for processes that are not the job's: ps -eo pid,psr,pcpu,comm --sort=-pcpu | head.",
        "See whether the clock is held back: hwsonde_cpu_throttles_total, the governor, the power limit of the board.",
        "See whether a quota holds the job: the throttled seconds of its control group.",
    ),
    Subsystem.GPU: (
        "Look for XID messages in the kernel log: journalctl -k -g Xid.",
        "Read clocks, clock limits and their reasons: nvidia-smi -q -d CLOCK,PERFORMANCE.",
        "Compare with the other GPUs of the host and of the job; run dcgmi diag -r 2 on the host once it is drained.",
    ),
    Subsystem.MEMORY: (
        "Read cat /proc/pressure/memory and vmstat 1: is the host reclaiming or swapping?",
        "Find who holds it: the largest control groups by anonymous memory.",
        "Look for corrected errors and the OOM killer: journalctl -k -g 'EDAC|oom'.",
    ),
    Subsystem.NETWORK: (
        "Read ip -s link and nstat -az | grep -i retrans: errors, drops, retransmissions.",
        "See the link: ethtool DEVICE for speed and carrier changes, and the counters of the switch's port.",
        "Compare with the hosts on the same switch: several of them means the fabric, one of them its cable or port.",
    ),
    Subsystem.STORAGE: (
        "Find the slow disk: iostat -x 1, the longest service time.",
        "Read its health: nvme smart-log /dev/DEVICE or smartctl -a /dev/DEVICE.",
        "Look for resets and time-outs in the kernel log: journalctl -k -g 'nvme|ata|I/O error'.",
    ),
    Subsystem.POWER: (
        "Read the sensors of the board: ipmitool sdr type 'Power Supply'.",
        "See whether a power limit was set or lowered: the settings of GPUs and of the CPU's package.",
        "Compare with the other hosts of the rack: several of them means its supply.",
    ),
    Subsystem.THERMAL: (
        "Read temperatures and fans: ipmitool sdr type Temperature, type Fan.",
        "Compare with the neighbours in the rack: all of them means the room, one of them its fans or dust.",
        "See whether clocks fell with it: throttling is how heat reaches the job.",
    ),
    Subsystem.PCIE: (
        "Read the link's width and speed against what the slot offers: lspci -vv -s ADDRESS, LnkSta against LnkCap.",
        "Look for corrected errors: journalctl -k -g AER.",
        "Reseat the card or swap its riser; a link that trained down stays down until it is reset.",
    ),
    Subsystem.WORKLOAD: (
        "Look at the job's own log at the onset: a new phase, a restart, an exit.",
        "See whether its processes are stopped or waiting: ps -eo pid,stat,wchan:20,comm.",
        "See whether all hosts of the job show it: then it is the job.",
    ),
}
