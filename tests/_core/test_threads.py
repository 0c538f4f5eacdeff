"""Linear algebra on one thread, while any block asks for it."""

from __future__ import annotations

import subprocess
import sys
import threading

from threadpoolctl import threadpool_info

from optensemble._core.threads import one_blas_thread


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_linear_algebra_stays_on_one_thread_until_the_last_has_left() -> None:
    with one_blas_thread():
        pass  # loads the libraries, which a test that runs alone has not
    before, first_in, second_in = blas_threads(), threading.Event(), threading.Event()
    seen = list[set[int]]()

    def first() -> None:
        with one_blas_thread():
            first_in.set()
            second_in.wait(10)

    def second() -> None:
        first_in.wait(10)
        with one_blas_thread():
            second_in.set()
            leader.join(10)
            seen.append(blas_threads())

    leader, follower = threading.Thread(target=first), threading.Thread(target=second)
    leader.start()
    follower.start()
    follower.join(20)
    assert seen == [{1}]
    assert blas_threads() == before


def test_a_library_that_scipy_brings_is_limited_although_scipy_was_not_loaded() -> None:
    code = """
from optensemble._core.threads import one_blas_thread
with one_blas_thread():
    import scipy.linalg, scipy.optimize
    from threadpoolctl import threadpool_info
    print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "{1}\n"
