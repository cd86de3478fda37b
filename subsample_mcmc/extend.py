"""What one writes one's own parts from: rules, selectors, control variates, strategies, kernels.

    Rule       when a race may drop an arm                       examples/own_rule.py
    Selector   how one decision is made                          examples/own_selector.py
    Control    a control variate: what is known of a sum         examples/own_control.py
    Strategy   which arm sm.identify pulls next                  examples/own_strategy.py
    Leaf       a kernel with compiled decisions; most kernels are a decorated function instead,
               sm.kernel, examples/own_kernel.py

Each is a frozen dataclass of numbers whose methods give compiled functions, made with `jit`, and
what these read, made with `record`: functions are compile-time, numbers are run-time. `memoised`
keeps what was built for one set of functions, so that it is compiled once.
"""

from subsample_mcmc.approx.control import Control, ControlFunctions, Prepared, functions_of_state
from subsample_mcmc.bandits.strategies.ucb import each
from subsample_mcmc.bandits.strategy import (
    OWN_RULE,
    Steps,
    Strategy,
    answer_mean,
    begin,
    leading,
    pull_each_once,
    stop,
    tell_all,
)
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    EXACT,
    EXHAUSTED,
    NOT_FINITE,
    OUT_OF_SPREAD,
    RACED,
    RETREATED,
    Outcome,
    Rule,
    RuleFunctions,
    gap,
    skewness,
    standard_error,
    variance,
)
from subsample_mcmc.decisions.selector import Selector, failed, not_a_sum
from subsample_mcmc.kernels.base import Kernel, Leaf
from subsample_mcmc.kernels.decision import Decision
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.records import record
from subsample_mcmc.numerics.rows import CHUNK, make_rows, put_back, take
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import Sources, place

__all__ = [
    "ALL_IMPOSSIBLE", "ALONE", "CHUNK", "EXACT", "EXHAUSTED", "FLAGS",
    "NOT_FINITE", "OUT_OF_SPREAD", "OWN_RULE", "RACED", "RETREATED", "Control",
    "ControlFunctions", "Decision", "Kernel", "Leaf", "Outcome", "Prepared", "Rule",
    "RuleFunctions", "Selector", "Shape", "Sources", "Steps", "Strategy", "answer_mean", "begin",
    "each", "failed", "functions_of_state", "gap", "jit", "leading", "make_rows", "memoised",
    "not_a_sum", "place", "pull_each_once", "put_back", "record", "skewness", "standard_error",
    "stop", "take", "tell_all", "variance",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
