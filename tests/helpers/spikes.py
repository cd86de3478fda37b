"""SpikeAndSlab with one line changed, in whichever of its modules."""

import inspect
import sys

from subsample_mcmc.kernels import spikes
from subsample_mcmc.kernels.columns import flip, kept, proposal, sweep


def mutated(module, old, new):
    """SpikeAndSlab of a package whose one module differs."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
    order, made = [proposal, kept, flip, sweep, spikes], {}
    for one in order[order.index(module) :]:
        text = inspect.getsource(one)
        text = text.replace(old, new) if one is module else text
        for name in made:
            text = text.replace(
                f"from {name} import", f"from mutant_{name.rpartition('.')[2]} import"
            )
        name = f"mutant_{one.__name__.rpartition('.')[2]}"
        scope = type(sys)(name)
        scope.__file__ = one.__file__
        made[one.__name__] = sys.modules[name] = scope
        exec(compile(text, f"<{name}>", "exec"), scope.__dict__)
    for one in made.values():
        del sys.modules[one.__name__]
    return made[spikes.__name__].SpikeAndSlab
