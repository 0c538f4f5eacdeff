"""Fits on a Dask cluster: the engine that runs passes on its workers, and rows that are a Dask frame."""
