"""NUTS of NumPyro, or of PyMC by nutpie, in a process that may be of another Python."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

BEGIN = """
import json, sys, time
import jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
jax.config.update("jax_enable_x64", True)
found, (draws, *given) = np.load(sys.argv[1]), map(int, sys.argv[2].split())
"""

END = """
run = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=draws, num_samples=draws,
                         progress_bar=False)
begun = time.process_time()
run.run(jax.random.PRNGKey(1))
jax.block_until_ready(run.get_samples())
spent = time.process_time() - begun
names = sys.argv[3].split()
np.savez(sys.argv[1] + ".out.npz", **{k: np.asarray(run.get_samples()[k]) for k in names})
print(json.dumps({"seconds": spent}))
"""

BEGIN_NUTPIE = """
import json, sys, time
import numpy as np, nutpie, pymc as pm
found, (draws, *given) = np.load(sys.argv[1]), map(int, sys.argv[2].split())
"""

END_NUTPIE = """
begun = time.process_time()
run = nutpie.sample(nutpie.compile_pymc_model(model()), draws=draws, tune=draws, chains=1, cores=1,
                    seed=1, progress_bar=False)
spent = time.process_time() - begun
names = sys.argv[3].split()
np.savez(sys.argv[1] + ".out.npz", **{k: run.posterior[k].values[0] for k in names})
print(json.dumps({"seconds": spent}))
"""


def nuts(
    python: str, model: str, arrays: dict[str, np.ndarray], names: tuple[str, ...], *numbers: int,
    by: str = "numpyro",
) -> tuple[dict[str, np.ndarray], float]:  # fmt: skip
    """Draws of these names after as many of warm-up, and CPU seconds with those of compiling.

    model: source of `model()`, which may use arrays by `found[name]` and the numbers as `given`,
    without the first, how many draws. by: "numpyro"; "nutpie", and then model() returns a model of
    PyMC. RuntimeError: the last line of what it complained of.
    """
    begin, end = (BEGIN, END) if by == "numpyro" else (BEGIN_NUTPIE, END_NUTPIE)
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "data.npz")
        np.savez(place, **arrays)
        told = [place, " ".join(map(str, numbers)), " ".join(names)]
        command = [python, "-W", "ignore", "-c", begin + model + end, *told]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it ended without a word"]
            raise RuntimeError(lines[-1][:60])
        seconds = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
        return dict(np.load(place + ".out.npz")), seconds
