"""The bandits of examples/best_arm/sh_var.py: Gaussian arms, rated movies, and a population.

Lalitha et al. (2023), section 5. Means 1 - sqrt(i / K), i = 0 .. K - 1; variances .9 mean^2 + .1
and .1 in turn, so that in every stage of sequential halving some arms vary much and some little;
and in every run means and variances are perturbed anew.

MovieLens ratings may not be passed on: download ml-100k or ml-1m from grouplens.org and give the
folder. Nothing of it is written anywhere.
"""

from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import subsample_mcmc as sm

RANK, RIDGE, SWEEPS = 5, 1.0, 10  # of the factors that complete the ratings
MIDDLE = 3.0  # of the scale from 1 to 5: ratings are told from there, so that means reach 0 .. 1
SIMULATED = 20_230  # seed of the ratings that stand in for MovieLens


class Bandit(NamedTuple):
    """What sm.identify plays: arms, and a function of rng that makes the data of a run."""

    arms: int
    data: Any


def pull(data, arm, rng):
    """A Gaussian reward, or the completed rating of a random user: one function, compiled once."""
    users = data.users.shape[0]
    if users == 0:
        return data.means[arm] + sqrt(data.variances[arm]) * rng.standard_normal()
    user, rating = rng.integers(0, users), 0.0
    for i in range(data.users.shape[1]):
        rating += data.users[user, i] * data.movies[arm, i]
    return rating


def record(means, variances, users=None, movies=None) -> dict:
    """What pull reads."""
    none = np.zeros((0, 0))
    users, movies = (none, none) if users is None else (users, movies)
    return {"means": means, "variances": variances, "users": users, "movies": movies}


# -------------------------------------------------------------------------------------- Gaussian
def profile(arms: int, rng=None, low_best: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances, perturbed if there is an rng; low_best: odd arms vary, not even ones."""
    number = np.arange(arms)
    means = 1.0 - np.sqrt(number / arms)
    varies = number % 2 == (1 if low_best else 0)
    variances = np.where(varies, 0.9 * means**2 + 0.1, 0.1)
    if rng is None:
        return means, variances
    means = means + 0.05 * rng.standard_normal(arms)
    return means, variances * rng.uniform(0.5, 1.5, arms)


def gaussian(arms: int, low_best: bool = False) -> Bandit:
    """A fresh perturbation in every run."""

    def data(rng):
        return record(*profile(arms, rng, low_best))

    return Bandit(arms, data)


# ---------------------------------------------------------------------------------------- movies
class Ratings(NamedTuple):
    """A completed matrix: the rating of user u for movie m is users[u] . movies[m]."""

    users: np.ndarray
    movies: np.ndarray
    told: str  # where it came from

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each movie over all users."""
        return (
            self.movies @ self.users.mean(axis=0),
            np.einsum("mi,ij,mj->m", self.movies, np.cov(self.users.T, ddof=0), self.movies),
        )


def rated(ratings: Ratings, arms: int) -> Bandit:
    """In every run, for each arm of a perturbed profile, the movie nearest in mean and variance.

    No movie is taken twice (the paper does not say): equal best arms could not be told apart.
    """
    means, variances = ratings.moments()

    def data(rng):
        wanted = profile(arms, rng)
        far = (wanted[0][:, None] - means) ** 2 + (wanted[1][:, None] - variances) ** 2
        chosen = np.zeros(arms, dtype=np.int64)
        for arm in range(arms):
            chosen[arm] = np.argmin(far[arm])
            far[:, chosen[arm]] = np.inf
        return record(means[chosen], variances[chosen], ratings.users, ratings.movies[chosen])

    return Bandit(arms, data)


def simulated(users: int = 2_000, movies: int = 3_000) -> Ratings:
    """Four tastes that users rather have or not, and what movies make of them: rank 5.

    Means 0 .. 1 and variances .03 .. 1.5 over movies, told from the middle of the scale, so that
    there is a movie near every arm of the profile.
    """
    rng = np.random.default_rng(SIMULATED)
    taste = np.where(rng.random((users, 4)) < (0.15, 0.3, 0.5, 0.7), 1.0, 0.0)
    taste += 0.3 * rng.standard_normal((users, 4))
    taste = (taste - taste.mean(axis=0)) / taste.std(axis=0)
    leaning = rng.standard_normal((movies, 4))
    leaning /= np.linalg.norm(leaning, axis=1)[:, None]
    leaning *= np.exp(rng.uniform(np.log(0.03), np.log(1.5), movies) / 2.0)[:, None]
    mean = rng.normal(0.3, 0.5, movies)
    told = f"simulated ratings, seed {SIMULATED}: {users:,} users x {movies:,} movies, rank 5"
    return Ratings(np.column_stack((np.ones(users), taste)), np.column_stack((mean, leaning)), told)


def movielens(path: Path) -> Ratings:
    """The user's own copy, completed by factors of rank 5."""
    user, movie, rating = read_ratings(path)
    centre = rating.mean()
    users, movies = complete(user, movie, rating - centre)
    error = rating - centre - np.einsum("ri,ri->r", users[user], movies[movie])
    told = (
        f"{len(rating):,} ratings of {path.name}, completed by rank {RANK}: {len(users):,} users x "
        f"{len(movies):,} movies; root mean square residual {np.sqrt(np.mean(error**2)):.2f}"
    )
    users = np.column_stack((np.ones(len(users)), users))
    movies = np.column_stack((np.full(len(movies), centre - MIDDLE), movies))
    return Ratings(users, movies, told)


def read_ratings(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(user, movie, rating) of ml-100k/u.data or ml-1m/ratings.dat; numbers from 0, no gaps."""
    files = [path] if path.is_file() else [path / name for name in ("u.data", "ratings.dat")]
    found = [file for file in files if file.is_file()]
    if not found:
        raise SystemExit(f"{path}: neither u.data (ml-100k) nor ratings.dat (ml-1m) is there.")
    numbers = np.array(found[0].read_text().replace("::", " ").split(), dtype=np.int64)
    columns = numbers.reshape(-1, 4).T
    user, movie = (np.unique(column, return_inverse=True)[1] for column in columns[:2])
    return user, movie, columns[2].astype(float)


def complete(user, movie, rating, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Alternating least squares with a ridge: factors of users and of movies."""
    movies = 0.1 * np.random.default_rng(seed).standard_normal((movie.max() + 1, RANK))
    for _ in range(SWEEPS):
        users = regressed(movies, movie, user, rating)
        movies = regressed(users, user, movie, rating)
    return users, movies


def regressed(factors, column, row, rating) -> np.ndarray:
    """Ridge regression of the ratings in each row on the factors of their columns."""
    order = np.argsort(row, kind="stable")
    column, rating = column[order], rating[order]
    ends = np.searchsorted(row[order], np.arange(row.max() + 2))
    found = np.zeros((row.max() + 1, RANK))
    for i in range(len(found)):
        part = slice(ends[i], ends[i + 1])
        x = factors[column[part]]
        found[i] = np.linalg.solve(x.T @ x + RIDGE * np.eye(RANK), x.T @ rating[part])
    return found


# ------------------------------------------------------------------------------------ population
class Sampled(NamedTuple):
    """A population to draw from; variances of one reward of each arm; p of all arms."""

    population: sm.Population
    variances: np.ndarray
    p: np.ndarray


def sampled(arms: int, size: int, nats: float, noise: float, seed: int) -> Sampled:
    """The profile as log factors: log p(i) = nats mean_i, in rewards of variance noise var_i / N.

    noise is then N v, the spread in nats of the sum of N rewards that were drawn with replacement.
    Where it is small, few rewards tell the arms apart.
    """
    rng = np.random.default_rng(seed)
    means, variances = profile(arms, rng)
    variances = noise / size * variances
    rewards = rng.standard_normal((arms, size))
    rewards *= np.sqrt(variances)[:, None]
    rewards += nats / size * means[:, None]
    total = rewards.sum(axis=1)
    p = np.exp(total - total.max())
    population = sm.Population(log_factor, {"rewards": rewards}, arms, size)
    return Sampled(population, variances, p / p.sum())


def log_factor(data, arm, n):
    return data.rewards[arm, n]
