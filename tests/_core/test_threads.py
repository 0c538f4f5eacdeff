"""Linear algebra on one thread, while any block asks for it."""

from __future__ import annotations

import threading

from threadpoolctl import threadpool_info

from optensemble._core.threads import one_blas_thread


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_linear_algebra_stays_on_one_thread_until_the_last_has_left() -> None:
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
