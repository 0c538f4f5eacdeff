"""Dask clusters for commands: one that is there, or workers of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optensemble.exceptions import InputError

_PATIENCE = "10s"  # for a scheduler to answer

_NO_MORE_THAN_NEEDED = {
    "distributed.scheduler.worker-saturation": 1.0,  # no run of blocks waits at one worker while another is idle
    "distributed.worker.profile.enabled": False,  # it stops a worker a hundred times a second, and nobody looks
}


@contextmanager
def open_client(scheduler: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """Connect to a scheduler, or start ``workers`` processes of this machine; None if neither is asked for."""
    if scheduler is None and workers is None:
        yield None
        return
    if scheduler is not None and workers is not None:
        raise InputError("--scheduler names a cluster that is there, --workers starts one. Give one of them.")
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("Dask is not installed. Install it: pip install 'optensemble[dask]'.") from error
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)  # one that failed would stay it
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {scheduler}. Check the address.") from error
        with client:
            yield client
        return
    with local_cluster(workers or 1) as cluster, Client(cluster) as client:
        yield client


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Start processes of this machine as workers, and end them; one that has died does not matter then."""
    import dask
    from distributed import LocalCluster, Status

    with dask.config.set(_NO_MORE_THAN_NEEDED):
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
    try:
        yield cluster
    finally:
        try:
            cluster.close()
        except KeyError:  # Dask looks for the worker that died, when all others are closed
            cluster.status = Status.closed
