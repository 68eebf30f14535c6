"""Every XID code that NVIDIA documents: what it is called here, whose fault it usually is, how bad it is, and what to do.

The codes and their constants are those of NVIDIA's XID catalogue and of ``nverror.h`` of the open driver; names, classes,
severities and advice are this project's own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Origin(StrEnum):
    """Whose fault a code usually is; the label ``class`` of ``hwsonde_gpu_xid_info``."""

    APPLICATION = "application"  # a program that ran on the GPU
    DRIVER = "driver"  # driver or firmware
    HARDWARE = "hardware"  # the board, its memory, its power, its slot
    FABRIC = "fabric"  # NVLink and what it leads to


class Severity(StrEnum):
    """How bad a code is for whoever runs the host."""

    INFO = "info"  # the program that failed is told; nobody else has to act
    WARNING = "warning"  # to be looked at in working hours
    CRITICAL = "critical"  # the GPU, or the host, is of no use to jobs until somebody acts: worth a page


class Advice(StrEnum):
    """What to do; the label ``action``."""

    NOTHING = "nothing to do"
    FOLLOW = "look at the XID that came just before it"
    RESTART_JOB = "restart the job; if it comes back on this GPU only, drain and test the GPU"
    FIX_PROGRAM = "debug the program; if different programs fail on this GPU, drain and test the GPU"
    RESTART_VM = "restart the virtual machine"
    RESET = "drain the host and reset the GPU; replace it if the error comes back"
    RESET_LATER = "reset the GPU when its job has ended, so that the repair takes effect"
    REBOOT = "reboot the host; reseat or replace the GPU if the error comes back"
    REPLACE = "drain the host and replace the GPU"
    WATCH = "watch this GPU; have it replaced if the error goes on"
    POWER = "check the power cables of the board and its supply"
    LINK = "check the NVLinks of this GPU; reset it if one is down, replace it if that does not help"
    UPDATE = "update driver and firmware"
    ASK = "save nvidia-bug-report.sh's output and ask the vendor"
    RECOVERY = "do what hwsonde_gpu_recovery_action asks for"


class Xid(NamedTuple):
    """One code.

    ``name`` says in a few words what happened; ``origin``, ``severity`` and ``advice`` are judged from the documentation, and
    speak of the usual case.
    """

    code: int
    name: str
    origin: Origin
    severity: Severity
    advice: Advice


_APP, _DRIVER, _HARDWARE, _FABRIC = Origin.APPLICATION, Origin.DRIVER, Origin.HARDWARE, Origin.FABRIC
_INFO, _WARNING, _CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL

_SINGLE = (
    Xid(1, "command queue: bad method", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(2, "command queue: bad software method", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(3, "command queue: unknown method", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(4, "command queue: channel busy", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(5, "command queue: overflow", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(6, "command queue: cannot be decoded", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(7, "command queue: bad page table entry", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(8, "GPU stopped processing", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(9, "graphics engine: wrong instance", _DRIVER, _WARNING, Advice.ASK),
    Xid(10, "graphics engine: single step", _DRIVER, _WARNING, Advice.ASK),
    Xid(11, "commands of a program are corrupted", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(12, "graphics engine: bad software method", _DRIVER, _WARNING, Advice.ASK),
    Xid(13, "exception in a program's kernel", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(14, "error made for a test", _DRIVER, _INFO, Advice.NOTHING),
    Xid(15, "display: scan line timed out", _DRIVER, _WARNING, Advice.ASK),
    Xid(16, "display: blanking timed out", _DRIVER, _WARNING, Advice.ASK),
    Xid(17, "wrong parameter", _DRIVER, _WARNING, Advice.ASK),
    Xid(18, "bus mastering timed out", _HARDWARE, _WARNING, Advice.REBOOT),
    Xid(19, "display: notification missed", _DRIVER, _WARNING, Advice.ASK),
    Xid(20, "video: MPEG engine", _APP, _INFO, Advice.RESTART_JOB),
    Xid(21, "video: motion estimation", _APP, _INFO, Advice.RESTART_JOB),
    Xid(22, "video: processor 1, bad method", _APP, _INFO, Advice.RESTART_JOB),
    Xid(23, "error logging was switched on", _DRIVER, _INFO, Advice.NOTHING),
    Xid(24, "graphics engine: semaphore timed out", _DRIVER, _WARNING, Advice.ASK),
    Xid(25, "commands of a program are not allowed", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(26, "memory interface timed out", _DRIVER, _WARNING, Advice.ASK),
    Xid(27, "video: processor 1", _APP, _INFO, Advice.RESTART_JOB),
    Xid(28, "video: processor 2", _APP, _INFO, Advice.RESTART_JOB),
    Xid(29, "video: bit stream processor", _APP, _INFO, Advice.RESTART_JOB),
    Xid(30, "access to a bad address", _DRIVER, _WARNING, Advice.ASK),
    Xid(31, "page fault of a program's kernel", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(32, "command stream of a program is corrupted", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(33, "security engine", _DRIVER, _WARNING, Advice.ASK),
    Xid(34, "video: stream decoder", _APP, _INFO, Advice.RESTART_JOB),
    Xid(35, "video: picture decoder", _APP, _INFO, Advice.RESTART_JOB),
    Xid(36, "video: post processor", _APP, _INFO, Advice.RESTART_JOB),
    Xid(37, "firmware: unknown method", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(38, "firmware: watchdog timed out", _DRIVER, _WARNING, Advice.UPDATE),
    Xid(42, "video: compositor", _APP, _INFO, Advice.RESTART_JOB),
    Xid(43, "a program's channel was reset for its own fault", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(44, "fault while switching programs", _DRIVER, _WARNING, Advice.ASK),
    Xid(45, "a program's channel was removed: it ended, or another error came before", _APP, _INFO, Advice.FOLLOW),
    Xid(46, "GPU stopped answering", _DRIVER, _CRITICAL, Advice.RESET),
    Xid(48, "uncorrectable memory error", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(49, "clock level was fixed by a setting", _DRIVER, _INFO, Advice.NOTHING),
    Xid(50, "clock level changed after an error", _DRIVER, _WARNING, Advice.FOLLOW),
    Xid(51, "stress test failed", _HARDWARE, _WARNING, Advice.WATCH),
    Xid(52, "clock level changed for heat", _HARDWARE, _WARNING, Advice.WATCH),
    Xid(53, "clocks reduced for heat", _HARDWARE, _WARNING, Advice.WATCH),
    Xid(54, "power cable is missing", _HARDWARE, _CRITICAL, Advice.POWER),
    Xid(55, "temperature cannot be read", _HARDWARE, _WARNING, Advice.ASK),
    Xid(56, "display: channel exception", _DRIVER, _WARNING, Advice.UPDATE),
    Xid(57, "memory link could not be trained", _HARDWARE, _WARNING, Advice.REBOOT),
    Xid(58, "memory interface is unstable", _HARDWARE, _WARNING, Advice.WATCH),
    Xid(59, "power controller error", _DRIVER, _WARNING, Advice.UPDATE),
    Xid(60, "security controller exception", _DRIVER, _WARNING, Advice.RESTART_JOB),
    Xid(61, "power controller stopped at a breakpoint", _DRIVER, _WARNING, Advice.RESET),
    Xid(62, "power controller halted", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(63, "memory row or page is marked for replacement", _HARDWARE, _WARNING, Advice.RESET_LATER),
    Xid(64, "memory row or page cannot be replaced", _HARDWARE, _CRITICAL, Advice.REPLACE),
    Xid(66, "driver's access to a register was refused", _DRIVER, _WARNING, Advice.UPDATE),
    Xid(67, "driver's access failed verification", _DRIVER, _WARNING, Advice.UPDATE),
    Xid(69, "program used an engine wrongly", _APP, _INFO, Advice.FIX_PROGRAM),
    Xid(74, "NVLink error", _FABRIC, _CRITICAL, Advice.LINK),
    Xid(78, "virtual GPU could not be started", _DRIVER, _WARNING, Advice.UPDATE),
    Xid(79, "GPU fell off the bus", _HARDWARE, _CRITICAL, Advice.REBOOT),
    Xid(80, "commands were corrupted on their way to the GPU", _APP, _INFO, Advice.RESTART_JOB),
    Xid(81, "display: VGA subsystem", _DRIVER, _WARNING, Advice.ASK),
    Xid(86, "optical flow engine 0", _APP, _INFO, Advice.RESTART_JOB),
    Xid(87, "report of the driver's telemetry", _DRIVER, _INFO, Advice.NOTHING),
    Xid(90, "cache error", _HARDWARE, _WARNING, Advice.WATCH),
    Xid(91, "reserved", _DRIVER, _WARNING, Advice.ASK),
    Xid(92, "many corrected memory errors", _HARDWARE, _WARNING, Advice.WATCH),
    Xid(93, "InfoROM is written too often", _DRIVER, _INFO, Advice.UPDATE),
    Xid(94, "memory error, contained to one program", _HARDWARE, _WARNING, Advice.RESET_LATER),
    Xid(95, "memory error, not contained", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(106, "test message of the management bus", _DRIVER, _INFO, Advice.NOTHING),
    Xid(107, "silent test message of the management bus", _DRIVER, _INFO, Advice.NOTHING),
    Xid(108, "NVLink: a peer cannot translate an address", _FABRIC, _WARNING, Advice.LINK),
    Xid(109, "switching programs timed out", _DRIVER, _CRITICAL, Advice.RESET),
    Xid(110, "security fault", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(111, "display: bundle error", _DRIVER, _WARNING, Advice.ASK),
    Xid(112, "display: supervisor", _DRIVER, _WARNING, Advice.ASK),
    Xid(113, "display: DisplayPort training failed", _DRIVER, _WARNING, Advice.ASK),
    Xid(114, "display: underflow", _DRIVER, _WARNING, Advice.ASK),
    Xid(115, "display: core channel", _DRIVER, _WARNING, Advice.ASK),
    Xid(116, "display: window channel", _DRIVER, _WARNING, Advice.ASK),
    Xid(117, "display: cursor channel", _DRIVER, _WARNING, Advice.ASK),
    Xid(118, "display: head", _DRIVER, _WARNING, Advice.ASK),
    Xid(119, "GPU's system processor does not answer", _DRIVER, _CRITICAL, Advice.RESET),
    Xid(120, "GPU's system processor failed", _DRIVER, _CRITICAL, Advice.RESET),
    Xid(121, "chip-to-chip link error", _FABRIC, _WARNING, Advice.WATCH),
    Xid(122, "flash memory cannot be read", _HARDWARE, _WARNING, Advice.ASK),
    Xid(123, "flash memory cannot be written", _HARDWARE, _WARNING, Advice.ASK),
    Xid(124, "flash memory cannot be erased", _HARDWARE, _WARNING, Advice.ASK),
    Xid(125, "InfoROM is damaged", _HARDWARE, _WARNING, Advice.ASK),
    Xid(136, "NVLink could not be trained", _FABRIC, _CRITICAL, Advice.LINK),
    Xid(137, "NVLink: a peer's access was refused", _FABRIC, _WARNING, Advice.FIX_PROGRAM),
    Xid(138, "deep learning accelerator", _DRIVER, _WARNING, Advice.ASK),
    Xid(139, "optical flow engine 1", _APP, _INFO, Advice.RESTART_JOB),
    Xid(140, "memory error that was not recovered from", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(141, "CUDA fast path error", _DRIVER, _WARNING, Advice.ASK),
    Xid(142, "video: encoder 3", _APP, _INFO, Advice.RESTART_JOB),
    Xid(143, "GPU could not be initialised", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(144, "NVLink 5: error of its unit SAW", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(145, "NVLink 5: error of its unit RLW", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(146, "NVLink 5: error of its unit TLW", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(147, "NVLink 5: error of its unit TREX", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(148, "NVLink 5: error of its unit NVLPW", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(149, "NVLink 5: error of its unit NETIR", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(150, "NVLink 5: error of its unit MSE", _FABRIC, _WARNING, Advice.RECOVERY),
    Xid(151, "encryption key could not be rotated", _DRIVER, _WARNING, Advice.RESTART_VM),
    Xid(152, "deep learning accelerator: memory fault", _DRIVER, _WARNING, Advice.ASK),
    Xid(153, "deep learning accelerator: timed out", _DRIVER, _WARNING, Advice.ASK),
    Xid(154, "driver asks for another recovery action", _DRIVER, _WARNING, Advice.RECOVERY),
    Xid(155, "NVLink error found by software", _FABRIC, _CRITICAL, Advice.RESET),
    Xid(156, "faulty unit is marked for retirement", _HARDWARE, _WARNING, Advice.RESET_LATER),
    Xid(157, "faulty unit cannot be retired", _HARDWARE, _WARNING, Advice.ASK),
    Xid(158, "GPU timed out for good", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(159, "coherent interface error without data", _FABRIC, _WARNING, Advice.ASK),
    Xid(160, "memory channel is marked for retirement", _HARDWARE, _WARNING, Advice.RESET_LATER),
    Xid(161, "memory channel cannot be retired", _HARDWARE, _WARNING, Advice.ASK),
    Xid(162, "power smoothing works again", _HARDWARE, _INFO, Advice.NOTHING),
    Xid(163, "power smoothing has stopped", _HARDWARE, _WARNING, Advice.ASK),
    Xid(164, "power smoothing is near the end of its life", _HARDWARE, _WARNING, Advice.ASK),
    Xid(165, "power smoothing is at the end of its life", _HARDWARE, _WARNING, Advice.ASK),
    Xid(166, "NVLink: traffic before encryption was set up", _FABRIC, _WARNING, Advice.ASK),
    Xid(167, "PCIe timed out for good", _HARDWARE, _CRITICAL, Advice.REBOOT),
    Xid(168, "GPU has less memory: faults in a protected region", _HARDWARE, _WARNING, Advice.ASK),
    Xid(169, "security controller halted", _HARDWARE, _CRITICAL, Advice.RESET),
    Xid(170, "NVLink: interrupt in confidential mode", _FABRIC, _WARNING, Advice.ASK),
    Xid(171, "uncorrectable error of DRAM, told beside XID 48", _HARDWARE, _WARNING, Advice.FOLLOW),
    Xid(172, "uncorrectable error of SRAM, told beside XID 48", _HARDWARE, _WARNING, Advice.FOLLOW),
)  # fmt: skip


def _engines(name: str, codes: tuple[int, ...], first: int = 0) -> list[Xid]:
    """Codes of engines of one kind, of which each has its own."""
    return [Xid(code, f"{name} {first + number}", _APP, _INFO, Advice.RESTART_JOB) for number, code in enumerate(codes)]


_ENGINES = (
    *_engines("copy engine", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))),
    *_engines("video: encoder", (47, 65, 73)),
    *_engines("video: decoder", (68, 83, 84, 88, 89, 96, 97, 98)),
    *_engines("JPEG engine", (82, *range(99, 106))),
)

TABLE: dict[int, Xid] = {row.code: row for row in sorted((*_SINGLE, *_ENGINES))}
