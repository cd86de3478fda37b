"""NumPyro's NUTS in a process of its own, which may be of another Python."""

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


def nuts(
    python: str, model: str, arrays: dict[str, np.ndarray], names: tuple[str, ...], *numbers: int
) -> tuple[dict[str, np.ndarray], float]:
    """Draws of these names after as many of warm-up, and CPU seconds with those of compiling.

    model: source of `model()`, which may use arrays by `found[name]` and the numbers as `given`,
    without the first, how many draws. RuntimeError: the last line of what it complained of.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "data.npz")
        np.savez(place, **arrays)
        told = [place, " ".join(map(str, numbers)), " ".join(names)]
        command = [python, "-W", "ignore", "-c", BEGIN + model + END, *told]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it ended without a word"]
            raise RuntimeError(lines[-1][:60])
        seconds = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
        return dict(np.load(place + ".out.npz")), seconds
