"""Every error that hwsonde-exporter raises on purpose.

Tree::

    ExporterError               one line, meant for the operator; the program ends with status 2
    |-- ConfigError             a flag or a configuration file is wrong (file, line, key, what is allowed)
    |-- ListenError             the address cannot be bound (taken, or not ours, or not yet); serving ends with status 1
    |-- ThreadError             the system gives this program no more threads; serving ends with status 1
    CollectorError              a collector could not do its work this time; never ends the program
    |-- Unavailable             it cannot work on this host, with one of the reasons below
    |-- ReadError               a kernel file vanished, could not be read or holds what its parser does not understand
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a collector has nothing to say; the label ``reason`` of ``hwsonde_exporter_collector_available``."""

    NO_HARDWARE = "no_hardware"
    NO_PERMISSION = "no_permission"
    NO_KERNEL_SUPPORT = "no_kernel_support"
    MISSING_TOOL = "missing_tool"
    DISABLED = "disabled"


class ExporterError(Exception):
    """Base of the errors that end the program with one line on standard error.

    Attributes
    ----------
    passing
        Whether a later start may be spared it though nobody changes a flag or a file: then a service is to be started again.
    """

    passing = False


class ConfigError(ExporterError):
    """A flag or a configuration file is wrong."""


class ListenError(ExporterError):
    """The listen address cannot be bound, or nothing listens any more.

    Parameters
    ----------
    text
        The line.
    passing
        As for all errors. An address may come and a port may become free; a right that a port wants does not come by itself.
    """

    def __init__(self, text: str, *, passing: bool = True) -> None:
        super().__init__(text)
        self.passing = passing


class ThreadError(ExporterError):
    """The system gives this program no more threads."""

    passing = True


class CollectorError(Exception):
    """A collector could not do its work this time."""


class Unavailable(CollectorError):
    """A collector cannot work on this host.

    Parameters
    ----------
    reason
        One of `Reason`.
    detail
        One plain sentence: what is missing and what would help.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class ReadError(CollectorError):
    """A kernel file vanished, could not be read, or holds what its parser does not understand."""
