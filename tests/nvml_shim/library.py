"""Builds the stand-in for libnvidia-ml.so.1, once for each content of its sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCES = Path(__file__).with_name("src")
CACHE = Path(__file__).parents[2] / "build" / "nvml_shim"
SONAME = "libnvidia-ml.so.1"
_FLAGS = (
    "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
    f"-Wl,-soname,{SONAME}",
)  # fmt: skip
_LIBRARIES = ("-lm", "-lpthread", "-ldl")


def build(missing: Collection[str] = ()) -> Path:
    """The library, with the functions in ``missing`` left out as an older driver's library has them left out.

    Raises
    ------
    RuntimeError
        If there is no C compiler, or it does not understand the sources.
    """
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if compiler is None:
        raise RuntimeError("the tests of GPUs need a C compiler: apt-get install gcc libc6-dev")
    sources = sorted(SOURCES.glob("*.c"))
    digest = hashlib.sha256()
    for path in (*sources, *sorted(SOURCES.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(repr((compiler, _FLAGS, _LIBRARIES, sorted(missing))).encode())
    target = CACHE / f"{digest.hexdigest()[:24]}.so"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE) as folder:
        script, made = Path(folder, "symbols"), Path(folder, SONAME)
        # A name stands before a wildcard, so these are hidden although all names like them are not.
        script.write_text(
            "{ global: nvml*; hwsonde*; local: " + "".join(f"{name}; " for name in sorted(missing)) + "*; };\n"
        )
        command = [
            compiler,
            *_FLAGS,
            f"-Wl,--version-script={script}",
            *map(str, sources),
            "-o",
            str(made),
            *_LIBRARIES,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the stand-in for {SONAME} cannot be built:\n{done.stderr}")
        made.replace(target)
    return target
