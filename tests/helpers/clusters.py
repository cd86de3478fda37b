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


@contextmanager
def ray_here(cores: int):
    """Ray with so many cores, on 127.0.0.1."""
    import ray

    ray.init(
        address="local", num_cpus=cores, include_dashboard=False, log_to_driver=False,
        object_store_memory=100_000_000, _node_ip_address="127.0.0.1",
    )  # fmt: skip
    yield ray
    ray.shutdown()
