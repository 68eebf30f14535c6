"""One GPU in the worker: how its calls are made, and what is remembered of those that it does not have.

Nothing here is imported by the exporter itself; ``pynvml`` is passed in by `hwsonde_exporter.nvml.worker`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")
# What a group of calls gives: name of the reading, further labels, the number as the driver gives it.
Row = tuple[str, Sequence[str], float]
Field = tuple[int, int]  # number of the field, scope

# What a driver or a card does not have now it may have when MIG or ECC was switched, which nobody tells us.
_FORGET_SECONDS = 300.0
_REFUSED_SECONDS = 10.0
_FIELD_VALUES = "nvmlDeviceGetFieldValues"
_FIELDS_AT_ONCE = 64
_WHOLE_DRIVER = frozenset({"uninitialized", "driver_not_loaded", "lib_rm_version_mismatch", "library_not_found"})
_WHOLE_GPU = frozenset({"gpu_is_lost", "gpu_not_found"})
_ABSENT = frozenset({"not_supported", "function_not_found", "argument_version_mismatch", "deprecated", "invalid_state"})
# Answers that say that there is nothing to tell: 0 is the library's "success" where its binding expected more.
NOTHING = frozenset({"success", "not_found", "no_data", "not_ready"})
# A field's value by the type that the driver states: member of the union, bits of a counter that wraps.
_MEMBERS = (("dVal", 64), ("uiVal", 32), ("ulVal", 64), ("ullVal", 64), ("sllVal", 64), ("siVal", 32), ("usVal", 16))


class DriverGone(Exception):
    """The library does not work any more, for all GPUs; the text is the error."""


class GpuGone(Exception):
    """The GPU does not answer any more; the text is the error."""


class Library:
    """The library's binding, and what is known of the errors of its calls.

    Parameters
    ----------
    nvml
        The module ``pynvml``.
    clock
        Monotonic seconds.
    """

    def __init__(self, nvml: Any, clock: Callable[[], float]) -> None:  # noqa: ANN401  (a module without types)
        self.nvml = nvml
        self.clock = clock
        self.errors: Counter[tuple[str, str]] = Counter()
        self.scratch: dict[str, Any] = {}  # large structures that are used again and again
        self.spare: list[Any] = []  # buffers of the library that no GPU uses now
        self.group = ""  # which group of calls is being made
        self._names = {
            getattr(nvml, name): name.removeprefix("NVML_ERROR_").lower()
            for name in dir(nvml)
            if name.startswith("NVML_ERROR_")
        }
        self._missing: set[str] = set()  # functions that the library does not have

    def error_name(self, error: Exception) -> str:
        """Name of what a call raised: that of the library's error in lower case, or ``exception``."""
        value = getattr(error, "value", None)
        if type(value) is int:
            return "success" if value == 0 else self._names.get(value, f"error_{value}")
        # The binding itself lacks the function, or says so in its own words.
        if isinstance(error, AttributeError) or type(error).__name__ == "NVMLLibraryMismatchError":
            return "function_not_found"
        return "exception"

    def count(self, error: str) -> None:
        """Count an error that is worth telling."""
        if error not in _ABSENT and error not in NOTHING:
            self.errors[self.group, error] += 1

    def missing(self, function: str) -> bool:
        """Whether the library is known not to have a function."""
        return function in self._missing

    def note_missing(self, function: str) -> None:
        """Remember that the library does not have a function."""
        self._missing.add(function)


class Gpu:
    """A GPU that the driver sees.

    Parameters
    ----------
    library
        How it is asked.
    handle
        The library's handle, which `renew` replaces in each cycle.
    number, uuid, bus_id
        What identifies it.
    """

    def __init__(self, library: Library, handle: object, number: int, uuid: str, bus_id: str) -> None:
        self.library = library
        self.nvml = library.nvml
        self.handle = handle
        self.number = number
        self.uuid = uuid
        self.bus_id = bus_id
        self.error = ""  # that of a call which says how the whole GPU is
        self.memory: dict[str, Any] = {}  # what groups remember between two readings
        self._absent: dict[object, float] = {}
        self._served: set[object] = set()  # functions and fields that have answered

    def renew(self, handle: object, number: int) -> None:
        """Take the handle and the number of a new cycle."""
        self.handle, self.number, self.error = handle, number, ""

    def forget(self) -> None:
        """Ask again for all that it did not have: its mode was changed."""
        self._absent.clear()

    def ask(self, function: str, *arguments: object, key: object = None) -> Any:  # noqa: ANN401  (as the binding)
        """Result of a function of the library for this GPU, or None if it has none now.

        A function that the library or the GPU does not have is not called again for a while. ``key`` says what else that
        is remembered for, where the arguments decide.

        Raises
        ------
        GpuGone, DriverGone
            If the error says that nothing else will work either.
        """
        return self.call(function, lambda: getattr(self.nvml, function)(self.handle, *arguments), key=key)

    def call(self, function: str, call: Callable[[], Result], *, key: object = None) -> Result | None:
        """Result of ``call``, which calls ``function``; otherwise as `ask`."""
        if self.library.missing(function):
            return None
        place = function if key is None else (function, key)
        until = self._absent.get(place)
        if until is not None:
            if self.library.clock() < until:
                return None
            del self._absent[place]
        try:
            return call()
        except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
            name = self.library.error_name(error)
        self.note(name, function, place)
        return None

    def note(self, error: str, function: str, place: object) -> None:
        """Remember what an error means; raises `GpuGone` or `DriverGone`."""
        self.library.count(error)
        if error in _WHOLE_DRIVER:
            raise DriverGone(error)
        if error in _WHOLE_GPU:
            raise GpuGone(error)
        if error == "reset_required":
            self.error = error
        elif error == "function_not_found":
            self.library.note_missing(function)
        elif error in _ABSENT:
            self._absent[place] = self.library.clock() + _FORGET_SECONDS
        elif error == "no_permission":
            # Who may not ask now may not in a second either.
            self._absent[place] = self.library.clock() + _REFUSED_SECONDS

    def lacks(self, function: str, *, key: object = None) -> bool:
        """Whether the library or the GPU is known not to have a function, or does not let it be asked."""
        place = function if key is None else (function, key)
        return self.library.missing(function) or self.library.clock() < self._absent.get(place, float("-inf"))

    def first(self, *calls: tuple[str, Callable[[], Result]]) -> Result | None:
        """Result of the first of several functions, newest first, that this library and GPU have.

        One that has served before is not given up for an error that passes: an older one may count other things, and the
        series would jump there and back.
        """
        for function, call in calls:
            result = self.call(function, call)
            if result is not None:
                self._served.add(function)
                return result
            if function in self._served and not self.lacks(function):
                return None
        return None

    def field_or(self, field: Field, found: Mapping[Field, tuple[float, int]], function: str) -> float | None:
        """Value of a field among those that were read, or of an older function where the GPU has no such field; as `first`."""
        if field in found:
            self._served.add(field)
            return found[field][0]
        if field in self._served and not self.lacks(_FIELD_VALUES, key=field):
            return None
        value: float | None = self.ask(function)
        return value

    def fields(self, fields: Iterable[Field]) -> dict[Field, tuple[float, int]]:
        """Values of fields that the GPU has, with the bits of the type that the driver states.

        Fields that it does not have are not asked again for a while.
        """
        function = _FIELD_VALUES
        now = self.library.clock()
        wanted = [field for field in fields if self._absent.get((function, field), now) <= now]
        found: dict[Field, tuple[float, int]] = {}
        for start in range(0, len(wanted), _FIELDS_AT_ONCE):
            part = wanted[start : start + _FIELDS_AT_ONCE]
            values = self.ask(function, part)
            if values is None:
                continue
            for field, value in zip(part, values, strict=False):
                if value.nvmlReturn != 0:
                    self._note_field(function, field, value.nvmlReturn)
                elif 0 <= value.valueType < len(_MEMBERS):
                    member, bits = _MEMBERS[value.valueType]
                    found[field] = (getattr(value.value, member), bits)
        return found

    def _note_field(self, function: str, field: Field, code: int) -> None:
        name = self.library.error_name(_FieldError(code))
        if name in {"function_not_found", "invalid_argument"}:
            # Of a field it means that this driver does not know the number yet.
            name = "not_supported"
        self.note(name, function, (function, field))


class _FieldError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def rows(name: str, values: Iterable[tuple[Sequence[str], float | None]]) -> Iterator[Row]:
    """Rows of one reading for those labels whose value is known."""
    for labels, value in values:
        if value is not None:
            yield name, labels, value


def named_fields(gpu: Gpu, reading: str, named: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    """Rows of fields by the name of their label; a binding that is older than a field has no name for it."""
    fields = {(number, 0): label for label, name in named if (number := getattr(gpu.nvml, name, None)) is not None}
    for field, (value, _) in gpu.fields(fields).items():
        yield reading, (fields[field],), value
