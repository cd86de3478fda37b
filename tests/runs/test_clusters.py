"""Chains on real clusters, started on this machine: dask's and ray's. `make clusters` has them."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs import backends, parallel
from tests.helpers import runs
from tests.helpers.clusters import ray_here, two_workers
from tests.helpers.runs import resumed

# What other libraries deprecate among each other is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
LENGTH = {"draws": 30, "warmup": 10, "chains": 4}


@pytest.fixture(scope="module", params=["dask", "ray"])
def cluster(request):
    """Two workers of each kind, stopped at the end: the backend's name."""
    if request.param == "dask":
        pytest.importorskip("distributed", reason="needs dask: `make clusters`")
        started = two_workers()
    else:
        pytest.importorskip("ray", reason="needs ray: `make clusters`")
        started = ray_here(2)
    with started:
        yield request.param


@pytest.fixture
def counted(monkeypatch):
    """How often the model is pickled here, how many bytes a worker gets; in many short rounds."""
    seen = {"pickles": 0, "bytes": 0, "parcels": 0, "rounds": 0}
    reduce, dumps, look = sm.Model.__reduce__, backends.pickled, parallel.Team.look

    def reduced(self):
        seen["pickles"] += 1
        return reduce(self)

    def measured(things):
        made = dumps(things)
        seen["bytes"], seen["parcels"] = len(made), seen["parcels"] + 1
        return made

    def looking(self, bars):
        seen["rounds"] += 1
        look(self, bars)

    monkeypatch.setattr(sm.Model, "__reduce__", reduced)
    monkeypatch.setattr(backends, "pickled", measured)
    monkeypatch.setattr(parallel.Team, "look", looking)
    monkeypatch.setattr(parallel, "TASK_SECONDS", 0.0)
    return seen


def test_the_same_draws_and_one_pickle_a_run(cluster, counted, tmp_path):
    here = runs.run(**LENGTH)
    assert counted["pickles"] == 0
    counted["rounds"] = 0
    there = runs.run(**LENGTH, parallel=cluster, cores=2, store=tmp_path / "run.nc")
    assert runs.same(there, here) and runs.same_states(there, here)
    assert counted["rounds"] > 3  # 4 tasks in each, and before, a pickle in each task
    assert counted["pickles"] == counted["parcels"] == 1 and counted["bytes"] < 50_000
    longer = LENGTH | {"draws": 40}
    on = resumed(tmp_path / "run.nc", 40, parallel=cluster, cores=2)
    assert runs.same(on, runs.run(**longer)) and counted["pickles"] == 2


def by_name(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def test_a_function_of_a_test_and_a_large_array(cluster, tmp_path):
    """By value where workers cannot import it, and as often in other workers of the cluster."""
    y = np.random.default_rng(1).normal(size=100_000)
    np.save(tmp_path / "y.npy", y)

    def local(state, data, n):
        return by_name(state, data, n)

    for data in (y, np.load(tmp_path / "y.npy", mmap_mode="r")):
        model = sm.Model(local, {"y": data}, {"mu": 0.0})
        kernel = sm.Metropolis("mu", 0.01, selector=sm.Exact())
        options = {"draws": 20, "warmup": 10, "chains": 2, "seed": 1, "progress": False}
        here = sm.sample(model, kernel, **options)
        assert runs.same(sm.sample(model, kernel, **options, parallel=cluster, cores=2), here)


@pytest.mark.parametrize("missing", [1, 200])
def test_a_mistake_comes_back(cluster, missing):
    bad = runs.model(data=runs.data(limit=0.3, bad=missing))
    with pytest.raises(sm.RewardError, match=f"datum {missing}"):
        runs.run(2000, 100, model=bad, parallel=cluster, cores=2)


def test_dask_without_a_client():
    pytest.importorskip("distributed", reason="needs dask: `make clusters`")
    from distributed import default_client

    try:
        default_client()
    except ValueError:
        with pytest.raises(ValueError, match=r"parallel='dask': .*client = distributed.Client\(\)"):
            runs.run(parallel="dask")
    else:
        pytest.skip("a client is there")


def test_rewards_that_are_elsewhere_are_refused():
    da = pytest.importorskip("dask.array", reason="needs dask: `make clusters`")
    with pytest.raises(TypeError, match=r"rewards is dask's Array, .*rewards\.compute\(\)"):
        sm.choose(da.zeros((2, 100)))
