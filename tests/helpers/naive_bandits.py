"""Strategies as their papers write them, in plain Python: slow, short, easy to believe.

A rule looks at all that was seen and says which arms may come next: a set, of more than one arm
where they tie; or None, which stops. `agrees` holds it against a run of the package, pull by pull.
"""

from math import ceil, floor, log, log2, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special, stats

from subsample_mcmc.bandits.play import Player, Pull
from subsample_mcmc.bandits.strategy import ENDINGS
from subsample_mcmc.numerics.records import as_record
from subsample_mcmc.target.population import prepared


def pull(data, arm, rng):
    """The one source of rewards of these tests: each other one takes seconds to compile."""
    return data.mean[arm] + data.sd[arm] * rng.standard_normal()


def bandit(mean, sd=0.5):
    """Data of `pull`."""
    mean = np.array(mean, dtype=float)
    return {"mean": mean, "sd": np.broadcast_to(np.asarray(sd, dtype=float), mean.shape).copy()}


class Watched(NamedTuple):
    """One run, in full."""

    arms: np.ndarray
    rewards: np.ndarray
    answer: int
    ended: str
    player: Any


def watch(strategy, mean, sd=0.5, seed=0, most=100_000, each=None):
    """One run by the compiled loop of sm.identify, stopped after every pull."""
    given = as_record(prepared(bandit(mean, sd)))
    source = Pull(pull, given, None)
    player = Player(strategy, len(given.mean), np.random.SeedSequence(seed), most, False)
    # Rewards are drawn from the first of two streams, one normal number for each pull.
    noise = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0])
    arms, rewards, over = [], [], False
    while not over:
        before = player.state.pulls.copy()
        over = player.run(source, given, player.total + 1)
        pulled = np.flatnonzero(player.state.pulls - before)
        if len(pulled):
            arm = int(pulled[0])
            arms.append(arm)
            rewards.append(given.mean[arm] + given.sd[arm] * noise.standard_normal())
            if each is not None:
                each(player.state, arms, rewards)
    ended = ENDINGS[player.state.now[0].ended]
    return Watched(np.array(arms), np.array(rewards), player.answer(), ended, player)


class Seen:
    """What a rule may know."""

    def __init__(self, count):
        self.count, self.arms, self.rewards = count, [], []
        self.own = [[] for _ in range(count)]
        self.pulls, self.means, self.squares = np.zeros(count), np.zeros(count), np.zeros(count)

    @property
    def total(self):
        return len(self.arms)

    def add(self, arm, reward):
        self.arms.append(arm)
        self.rewards.append(reward)
        self.own[arm].append(reward)
        own = np.array(self.own[arm])
        self.pulls[arm], self.means[arm] = len(own), own.mean()
        self.squares[arm] = ((own - own.mean()) ** 2).sum()


def agrees(run, count, rule, rounds=1):
    """Hold a run against a rule, after `rounds` pulls of every arm in any order."""
    seen = Seen(count)
    for t, (arm, reward) in enumerate(zip(run.arms, run.rewards, strict=True)):
        if t < rounds * count:
            assert seen.pulls[arm] == t // count
        else:
            allowed = rule(seen)
            assert allowed is not None, f"the rule stops after {t} pulls, not {len(run.arms)}"
            assert arm in allowed, f"pull {t + 1} is of arm {arm}, the rule wants {allowed}"
        seen.add(int(arm), reward)
    if run.ended in ("own rule", "stopping rule"):
        assert rule(seen) is None, f"the rule goes on after {len(run.arms)} pulls"
    np.testing.assert_allclose(run.player.state.means, seen.means, atol=1e-12)
    np.testing.assert_allclose(run.player.state.squares, seen.squares, rtol=1e-9, atol=1e-12)
    return seen


def highest(values):
    """Where the maximum is; several places if they differ by rounding alone."""
    values = np.asarray(values, dtype=float)
    top = values.max()
    near = top - 1e-10 * (1 + abs(top)) if np.isfinite(top) else top
    return set(np.flatnonzero(values >= near).tolist())


def others(values, arm):
    """`values` without an arm: -inf there."""
    left = np.array(values, dtype=float)
    left[arm] = -np.inf
    return left


# ------------------------------------------------------------------------------- confidence bounds
def lemma(e):
    """c_e of the finite law of the iterated logarithm."""
    return (2 + e) / e * (1 / log(1 + e)) ** (1 + e)


def lil_radius(pulls, scale, level, e=0.01):
    pulls = np.asarray(pulls, dtype=float)
    iterated = np.log(np.log((1 + e) * pulls + 2) / level)
    return (1 + sqrt(e)) * np.sqrt(2 * scale**2 * (1 + e) * iterated / pulls)


def proved_patience(delta, beta=1.0, e=0.01):
    """The lambda of the proof of lil'UCB's theorem, 9 is its leading part."""
    nu, square = (sqrt(1 + delta) - 1) ** 2 / (4 * lemma(e)), ((2 + beta) / beta) ** 2
    above = 1 + log(2 * log(square / nu)) / log(1 / nu)
    below = 1 - (1 + e) * nu - sqrt(sqrt(1 + e) * nu**0.25 * log(1 / nu))
    return square * above / below


def lil_ucb(count, delta, scale, variant, batch=1):
    """batch: pulls of an arm in a row; then the rule stops only at the arm that is on top."""
    e, beta, patience = (0, 0.5, 1 + 10 / count) if variant == "heuristic" else (0.01, 1, 9)
    if variant == "theory":
        patience = proved_patience(delta)
    level = {
        "heuristic": delta / 5,
        "theory": (sqrt(1 + delta) - 1) ** 2 / (4 * lemma(0.01)),
        "experiment": (delta * 0.01 / (5 * 2.01)) ** (1 / 1.01),
    }[variant]
    block = []

    def rule(seen):
        if block:
            return {block.pop()}
        top = highest(seen.means + (1 + beta) * lil_radius(seen.pulls, scale, level, e))
        dominates = set(np.flatnonzero(seen.pulls >= 1 + patience * (seen.total - seen.pulls)))
        if dominates and (batch == 1 or top <= dominates):
            return None
        block.extend(list(top)[:1] * (batch - 1))
        return top

    return rule


def lil_stopping(inner, count, delta, scale):
    level = (delta / (2 * count * lemma(0.01))) ** (1 / 1.01)

    def rule(seen):
        radius = lil_radius(seen.pulls, scale, level)
        best = int(np.argmax(seen.means))
        if seen.means[best] - radius[best] >= others(seen.means + radius, best).max():
            return None
        return inner(seen)

    return rule


def in_turn(seen):
    return highest(-seen.pulls)


def ucb1(scale):
    return lambda seen: highest(seen.means + np.sqrt(8 * scale**2 * log(seen.total) / seen.pulls))


def successive(count, delta, scale, radius):
    """`radius`: lil or hoeffding."""
    active = set(range(count))
    level = (delta / (2 * count * lemma(0.01))) ** (1 / 1.01)

    def rule(seen):
        inside = sorted(active)
        rounds = seen.pulls[inside].max()
        if (seen.pulls[inside] == rounds).all():
            half = 2 * scale * sqrt(log(5 * count * rounds**2 / delta) / (2 * rounds))
            if radius == "lemma":
                half = float(lil_radius(rounds, scale, level))
            top = seen.means[inside].max()
            active.difference_update(a for a in inside if top - seen.means[a] >= 2 * half)
            if len(active) == 1:
                return None
        return {a for a in active if seen.pulls[a] == min(seen.pulls[list(active)])}

    return rule


def lucb(count, delta, scale, variant, epsilon=0.0):
    pending = []

    def radius(seen, share):
        if variant == "1":
            return (
                2 * scale * np.sqrt(log(5 * count * seen.total**4 / (4 * delta)) / seen.pulls / 2)
            )
        return lil_radius(seen.pulls, scale, (share / lemma(0.01)) ** (1 / 1.01))

    def rule(seen):
        if pending:
            return {pending.pop()}
        best = int(np.argmax(seen.means))
        upper = others(seen.means + radius(seen, delta / 2), best)
        lower = (seen.means - radius(seen, delta / (2 * (count - 1))))[best]
        if upper.max() - lower <= epsilon:
            return None
        pending.append(int(np.argmax(upper)))
        return {best}

    return rule


# ------------------------------------------------------------------------------- likelihood ratios
def threshold(count, delta, total, kind):
    """Kaufmann & Koolen (2021), Corollary 10, its minimum by brute force; or that of practice."""
    if kind == "practice":
        return log((1 + log(total)) / delta)
    at = np.linspace(0.5001, 0.9999, 20_001)
    g = 2 * at - 2 * at * np.log(4 * at) + np.log(special.zeta(2 * at)) - np.log(1 - at) / 2
    least = ((g + log((count - 1) / delta) / 2) / at).min()
    return 2 * least + 4 * log(4 + log(total / 2))


def evidence(seen, best, scale):
    """Of `best` against every other arm; inf for itself."""
    gaps = np.maximum(seen.means[best] - seen.means, 0)
    found = gaps**2 / (2 * scale**2 * (1 / seen.pulls[best] + 1 / seen.pulls))
    found[best] = np.inf
    return found


def top_two(count, delta, scale, kind):
    """EB-TCI: the leader, or its challenger."""

    def rule(seen):
        best = int(np.argmax(seen.means))
        against = evidence(seen, best, scale)
        if against.min() > threshold(count, delta, seen.total, kind):
            return None
        return {best} | highest(-(against + np.log(seen.pulls)))

    return rule


def sampled_top_two(mean, scale, delta, rule, rng):
    """T3C or TTTS with the threshold of practice: (pulls, the arm)."""
    count, seen = len(mean), Seen(len(mean))
    for arm in range(count):
        seen.add(arm, mean[arm] + scale * rng.standard_normal())
    while True:
        best = int(np.argmax(seen.means))
        if evidence(seen, best, scale).min() > threshold(count, delta, seen.total, "practice"):
            return seen.total, best
        leader = arm = int(np.argmax(rng.normal(seen.means, scale / np.sqrt(seen.pulls))))
        if rng.random() >= 0.5:
            if rule == "T3C":
                arm = int(rng.choice(list(highest(-evidence(seen, leader, scale)))))
            for _ in range(1000):
                if arm != leader:
                    break
                arm = int(np.argmax(rng.normal(seen.means, scale / np.sqrt(seen.pulls))))
            else:
                arm = int(rng.choice(list(highest(-evidence(seen, leader, scale)))))
        seen.add(arm, mean[arm] + scale * rng.standard_normal())


def optimal_weights(means):
    """Garivier & Kaufmann (2016): the shares of Gaussian arms, by Brent's root finder."""
    best = int(np.argmax(means))
    gaps = np.delete((means[best] - means) ** 2, best)

    def ratios(level):
        return level / (gaps - level)

    near = gaps.min()
    level = optimize.brentq(
        lambda y: (ratios(y) ** 2).sum() - 1, 0, near * (1 - 1e-14), xtol=1e-300, rtol=1e-14
    )
    found = np.insert(ratios(level), best, 1.0)
    return found / found.sum()


def track_and_stop(count, delta, scale, kind):
    def rule(seen):
        best = int(np.argmax(seen.means))
        if evidence(seen, best, scale).min() > threshold(count, delta, seen.total, kind):
            return None
        if seen.pulls.min() < sqrt(seen.total) - count / 2:
            return highest(-seen.pulls)
        lag = seen.total * optimal_weights(seen.means) - seen.pulls
        return set(np.flatnonzero(lag >= lag.max() - 1e-7 * seen.total).tolist())

    return rule


# ------------------------------------------------------------------------------- fixed budgets
def gaps_of(values):
    return np.array([abs(others(values, i).max() - values[i]) for i in range(len(values))])


def by_gaps(name, budget, width, hardness):
    """UCBE, GapE, GapEV; hardness None: sum b^2 / gap^2 of the means so far (GapEV: its own)."""

    def rule(seen):
        count, gaps = len(seen.pulls), gaps_of(seen.means)
        variance = seen.squares / seen.pulls
        hard = hardness or (width**2 / gaps**2).sum()
        if name == "GapEV" and hardness is None:
            roots = np.sqrt(variance) + np.sqrt(variance + 16 / 3 * width * gaps)
            hard = (roots**2 / gaps**2).sum()
        share, first = {"UCBE": (25 / 36, 1), "GapE": (4 / 9, 1), "GapEV": (8 / 9, 2)}[name]
        a = share * (budget - first * count) / hard
        if name == "UCBE":
            return highest(seen.means + width * np.sqrt(a / seen.pulls))
        if name == "GapE":
            return highest(-gaps + width * np.sqrt(a / seen.pulls))
        bonus = 7 * a * width / (3 * (seen.pulls - 1))
        return highest(-gaps + np.sqrt(2 * a * variance / seen.pulls) + bonus)

    return rule


def u_gap_e(budget, width, hardness):
    """UGapEb, and the list of (least regret, arm) from which it names one."""
    judged = []

    def rule(seen):
        gaps = gaps_of(seen.means)
        hard = hardness or (width**2 / (gaps / 2) ** 2).sum()
        radius = width * np.sqrt((budget - seen.count) / (4 * hard) / seen.pulls)
        upper, lower = seen.means + radius, seen.means - radius
        regret = [others(upper, i).max() - lower[i] for i in range(seen.count)]
        best = int(np.argmin(regret))
        rival = int(np.argmax(others(upper, best)))
        judged.append((min(regret), best))
        pulls = seen.pulls
        return {best, rival} if pulls[best] == pulls[rival] else {min(best, rival, key=pulls.item)}

    return rule, judged


def rejects(count, budget, by_variance=False):
    """Successive rejects; by_variance: the package's stand-in for VBR."""
    log_bar = 0.5 + sum(1 / i for i in range(2, count + 1))
    quota = [0] + [
        max(ceil((budget - count) / (log_bar * (count + 1 - k)) - 1e-9), 1) for k in range(1, count)
    ]
    active, phase, spent = set(range(count)), [1], [quota[1] * count]

    def rule(seen):
        while seen.total == spent[0]:
            upper = seen.means.copy()
            if by_variance:
                upper += 1.96 * np.sqrt(seen.squares / (seen.pulls - 1) / seen.pulls)
            active.discard(min(active, key=upper.item))
            phase[0] += 1
            if len(active) == 1:
                return None
            spent[0] += (quota[phase[0]] - quota[phase[0] - 1]) * len(active)
        inside = np.array(sorted(active))
        need = -seen.pulls[inside]
        if by_variance:
            pulls = seen.pulls[inside]
            need = np.full(len(inside), np.inf)
            two = pulls > 1
            need[two] = seen.squares[inside][two] / (pulls[two] - 1) / pulls[two]
        return set(inside[list(highest(need))].tolist())

    return rule, active


def check_halving(run, count, budget, allocation, variances=None, delta=0.05):
    """Every stage of a run of sequential halving."""
    stages, active, start = ceil(log2(count)), set(range(count)), 0
    first = floor(4 * log(1 / delta) + 1) + 1
    for stage in range(stages):
        end = start + budget // stages if stage < stages - 1 else budget
        seen = Seen(count)
        adaptive = allocation == "adaptive-variance" and end - start >= first * len(active)
        for arm, reward in zip(run.arms[start:end], run.rewards[start:end], strict=True):
            assert arm in active
            inside = np.array(sorted(active))
            pulls = seen.pulls[inside]
            if allocation == "known-variance":
                with np.errstate(divide="ignore"):
                    assert arm in inside[list(highest(np.array(variances)[inside] / pulls))]
            elif adaptive and (pulls >= first).all():
                spread = seen.squares[inside] / (pulls - 1)
                upper = spread / (1 - 2 * np.sqrt(log(1 / delta) / (pulls - 1)))
                assert arm in inside[list(highest(upper / pulls))]
            elif adaptive:
                assert seen.pulls[arm] < first
            seen.add(int(arm), reward)
        if allocation == "equal" or (allocation == "adaptive-variance" and not adaptive):
            assert np.ptp(seen.pulls[sorted(active)]) <= 1
        worst_first = sorted(active, key=lambda a: seen.means[a] if seen.pulls[a] else -np.inf)
        active = set(worst_first[len(active) // 2 :])
        start = end
    assert len(run.arms) == budget
    assert active == {run.answer}


# ------------------------------------------------------------------------------- linear arms
def least_norm_shares(features, direction):
    """|w| / sum |w| of the w of least absolute sum with X'w = direction."""
    count = len(features)
    both = np.hstack([features.T, -features.T])
    w = optimize.linprog(np.ones(2 * count), A_eq=both, b_eq=direction).x
    w = np.abs(w[:count] - w[count:])
    return w / w.sum()


def lin_gap_e(features, delta, noise, norm, ridge=1.0, rule="greedy", union=True, epsilon=0.0):
    """With dense algebra from all that was seen, and no updates."""
    count, d = features.shape

    def step(seen):
        A = ridge * np.eye(d) + (features.T * seen.pulls) @ features
        theta = np.linalg.solve(A, features.T @ (seen.pulls * seen.means))
        log_det = np.linalg.slogdet(A)[1] - d * log(ridge)
        wide = noise * sqrt(2 * log((count**2 if union else 1) / delta) + log_det)
        wide += sqrt(ridge) * norm
        best = int(np.argmax(features @ theta))
        apart = features - features[best]
        length = np.sqrt(np.einsum("kd,kd->k", apart, np.linalg.solve(A, apart.T).T))
        lead = others(apart @ theta + wide * length, best)
        if lead.max() <= epsilon:
            return None
        y = features[best] - features[int(np.argmax(lead))]
        if rule == "ratio":
            shares = least_norm_shares(features, y)
            with np.errstate(divide="ignore", invalid="ignore"):
                return highest(np.where(shares > 1e-12, -seen.pulls / shares, -np.inf))
        after = [y @ np.linalg.solve(A + np.outer(x, x), y) for x in features]
        return highest(-np.array(after) / min(after))

    return step


def least_squares(features, pulls, sums):
    """(estimates of all means, lengths of all differences)."""
    A = (features.T * pulls) @ features
    apart = features[:, None] - features[None]
    lengths = np.einsum("ijd,ijd->ij", apart, (apart @ np.linalg.inv(A)))
    return features @ np.linalg.solve(A, features.T @ sums), lengths


def soare(total, directions, delta, noise):
    """c sqrt(log(c' n^2 K / delta)) of Soare, Lazaric & Munos (2014)."""
    return 2 * sqrt(2) * noise * sqrt(log(6 / pi**2 * total**2 * directions / delta))


def xy_static(features, delta, noise):
    """Every arm once, in order; then what shrinks the longest direction most."""
    count = len(features)

    def rule(seen):
        estimates, lengths = least_squares(features, seen.pulls, seen.pulls * seen.means)
        best = int(np.argmax(estimates))
        radius = soare(seen.total, count**2, delta, noise) * np.sqrt(lengths[best])
        if (radius <= estimates[best] - estimates).all():
            return None
        return after_each(features, seen.pulls, set(range(count)))

    return rule


def after_each(features, pulls, possible):
    """Arms after whose pull the longest direction between possible arms is shortest."""
    inside, worst = sorted(possible), []
    for arm in range(len(features)):
        more = pulls + np.eye(len(pulls))[arm]
        worst.append(least_squares(features, more, more)[1][np.ix_(inside, inside)].max())
    return highest(-np.array(worst) / min(worst))


def xy_adaptive(features, delta, noise):
    """Phases that forget all but which arms are still possible; `phases` are their first pulls."""
    count, d = features.shape
    phases, possible, level = [0], set(range(count)), [1 / (d * (d + 1) + 1)]

    def rule(seen):
        arms = np.array(seen.arms[phases[-1] :], dtype=int)
        if len(arms) < count:
            return {len(arms)}
        pulls = np.bincount(arms, minlength=count).astype(float)
        sums = np.bincount(arms, seen.rewards[phases[-1] :], count)
        estimates, lengths = least_squares(features, pulls, sums)
        inside = sorted(possible)
        now = lengths[np.ix_(inside, inside)].max()
        if now <= 0.1 * level[0]:
            behind = estimates[None] - estimates[:, None]  # of the row's arm
            radius = soare(len(arms), count**2, delta, noise) * np.sqrt(lengths)
            level[0] = now
            phases.append(seen.total)
            possible.clear()
            possible.update(np.flatnonzero(~(behind > radius).any(axis=1)).tolist())
            return None if len(possible) == 1 else {0}
        return after_each(features, pulls, possible)

    return rule, phases, possible


# ------------------------------------------------------------------------------- Gaussian priors
def posterior(covariance, noise, mean, arms, rewards):
    """(mean, covariance) of all arms, by the dense formula of Gaussian regression."""
    at = np.asarray(arms, dtype=int)
    if len(at) == 0:
        return mean.copy(), covariance.copy()
    both = covariance[np.ix_(at, at)] + np.diag(noise[at])
    gain = np.linalg.solve(both, covariance[at]).T
    return mean + gain @ (np.array(rewards) - mean[at]), covariance - gain @ covariance[at]


def by_posterior(name, covariance, noise, budget, mean, delta=0.05, margin=0.01):
    def rule(seen):
        centre, spread = posterior(covariance, noise, mean, seen.arms, seen.rewards)
        sd, t = np.sqrt(np.maximum(np.diag(spread), 0)), seen.total + 1
        best = centre.max()
        if name == "BayesUCB":
            return highest(centre + stats.norm.ppf(1 - 1 / (t + 1)) * sd)
        if name == "GPUCB":
            return highest(centre + sqrt(2 * log(len(sd) * t**2 * pi**2 / (6 * delta))) * sd)
        if name == "ProbabilityOfImprovement":
            return highest(stats.norm.cdf((centre - best - margin) / sd))
        z = (centre - best) / sd
        return highest(sd * (z * stats.norm.cdf(z) + stats.norm.pdf(z)))

    return rule


def bayes_gap(covariance, noise, budget, mean, epsilon=0.0, spare=None, hardness=None):
    """BayesGap with the paper's beta, and (least regret, arms that have it) of all rounds."""
    judged, count = [], len(covariance)
    spare = (count if budget > count else 0) if spare is None else spare

    def rule(seen):
        centre, spread = posterior(covariance, noise, mean, seen.arms, seen.rewards)
        sd = np.sqrt(np.maximum(np.diag(spread), 0))
        hard = hardness
        if hard is None:
            upper, lower, floor = centre + 3 * sd, centre - 3 * sd, max(epsilon, 1e-12)
            gaps = [others(upper, k).max() - lower[k] for k in range(count)]
            # The printed gap of an arm that is clearly best is below 0, and it infinitely hard.
            leader = centre.argmax()
            gaps[leader] = max(gaps[leader], upper[leader] - others(lower, leader).max())
            hard = (1 / np.maximum((np.array(gaps) + epsilon) / 2, floor) ** 2).sum()
        kappa = (1 / np.diag(covariance)).sum()
        beta = sqrt(((budget - spare) / noise.mean() + kappa) / (4 * hard))
        upper, lower = centre + beta * sd, centre - beta * sd
        regret = np.array([others(upper, k).max() - lower[k] for k in range(count)])
        allowed = set()
        for best in highest(-regret):
            for rival in highest(others(upper, best)):
                pair = [best, rival]
                allowed |= {pair[i] for i in highest(sd[pair])}
        judged.append((regret.min(), highest(-regret)))
        return allowed

    return rule, judged
