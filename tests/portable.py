"""The tests on other processors, simulated on this one.

What is promised: sums and kernels give the same bits on one kind of processor, and across kinds results are equal to a
stated tolerance. So no test may hang on a last bit. Here the parts that differ between processors are told to behave as
on another one: OpenBLAS takes that processor's kernels, numba compiles for it, NumPy and Arrow leave out vector
instructions that it lacks, and so does the C library. Each processor has a cache of compiled code of its own.

    python tests/portable.py                  # the tests that are about numbers, on every processor that can be
    python tests/portable.py sandybridge      # on one
    python tests/portable.py --all haswell    # all tests but those in a browser

Arguments after ``--`` go to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CACHES = HERE.parent / "build" / "portable"

HASWELL = "+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+popcnt,+lzcnt,+movbe,+f16c"

NUMBERS = [
    *("tests/_core", "tests/stats", "tests/feasible", "tests/members", "tests/multicalibration", "tests/stacking"),
    *("tests/evaluation", "tests/explanation", "tests/ensembles", "tests/persistence", "tests/theorems"),
    *("src", "README.md"),
]
"""What could hang on the last bit: numbers, examples in docstrings, the README."""

EVERYTHING, DOCUMENTATION = ["tests", "src", "README.md"], ["--doctest-glob=*.md", "docs"]


@dataclass(frozen=True)
class Processor:
    """What a processor has, in the words of those who ask: NumPy's groups of instructions, OpenBLAS, numba, glibc."""

    numpy: tuple[str, ...]
    openblas: str
    numba: tuple[str, str | None]
    glibc_without: str
    arrow: str

    def environment(self, cache: Path) -> dict[str, str]:
        """Return the variables that make libraries behave as on this processor."""
        name, features = self.numba
        return {
            "OPENBLAS_CORETYPE": self.openblas,
            "NUMBA_CPU_NAME": name,
            **({} if features is None else {"NUMBA_CPU_FEATURES": features}),
            "NUMBA_CACHE_DIR": str(cache),
            "NPY_DISABLE_CPU_FEATURES": " ".join(feature for feature in found() if feature not in self.numpy),
            "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={self.glibc_without}",
            "ARROW_USER_SIMD_LEVEL": self.arrow,
        }


PROCESSORS = {
    "sandybridge": Processor((), "Sandybridge", ("generic", None), "-AVX512F,-AVX2,-FMA", "SSE4_2"),
    "haswell": Processor(("X86_V3",), "Haswell", ("haswell", HASWELL), "-AVX512F", "AVX2"),
    "zen": Processor(("X86_V3",), "Zen", ("znver2", f"{HASWELL},+sse4a"), "-AVX512F,-FMA", "AVX2"),
    "skylakex": Processor(("X86_V3", "X86_V4"), "SkylakeX", ("skylake-avx512", None), "-AVX2,-FMA", "AVX512"),
}


def found() -> list[str]:
    """Return the groups of instructions that NumPy found on this machine, beyond those it always needs."""
    return list(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))


def run(name: str, tests: list[str]) -> int:
    """Run the tests as on one processor."""
    cache = CACHES / name
    cache.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quiet", "--numprocesses=2"]
    command += ["--dist=loadfile", "-m", "not browser", *tests]
    return subprocess.call(command, cwd=HERE.parent, env={**os.environ, **PROCESSORS[name].environment(cache)})


def main(arguments: list[str]) -> int:
    """Run on the processors that are named, or on all that this machine can be."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    ours, theirs = arguments[:cut], arguments[cut + 1 :]
    names = [name for name in ours if name != "--all"] or list(PROCESSORS)
    unknown = [name for name in names if name not in PROCESSORS]
    if unknown:
        sys.exit(f"unknown processor {unknown[0]!r}; known are {', '.join(PROCESSORS)}.")
    batches = [EVERYTHING, DOCUMENTATION] if "--all" in ours else [NUMBERS]
    outcomes = {}
    for name in names:
        missing = [feature for feature in PROCESSORS[name].numpy if feature not in found()]
        if missing:
            outcomes[name] = f"skipped: this machine lacks {', '.join(missing)}"
            continue
        began = time.monotonic()
        code = max(run(name, [*tests, *theirs]) for tests in batches)
        outcomes[name] = f"{'FAILED' if code else 'passed'} in {time.monotonic() - began:.0f} s"
    print("\n".join(f"{name:<12} {outcome}" for name, outcome in outcomes.items()))
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
