"""Clusters that tests start, and stop, on this machine."""

from contextlib import contextmanager


@contextmanager
def two_workers():
    """A client of two workers of dask, of one core each, on 127.0.0.1."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )
    client = distributed.Client(cluster)
    yield client
    client.close()
    cluster.close()
