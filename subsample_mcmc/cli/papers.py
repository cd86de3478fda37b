"""Every figure and table of the five papers: the script that makes it, or why there is none."""

from typing import NamedTuple

PAPERS = {
    "chen2016": "Chen & Ghahramani (2016), Scalable discrete sampling as a multi-armed bandit "
    "problem, arXiv:1506.09039",
    "hoffman2013": "Hoffman, Shahriari & de Freitas (2013), Correlation and budget constraints in "
    "Bayesian bandit optimization, arXiv:1303.6746",
    "jamieson2014": "Jamieson, Malloy, Nowak & Bubeck (2014), lil' UCB, arXiv:1312.7308",
    "lalitha2023": "Lalitha, Kalantari, Ma, Deoras & Kveton (2023), Fixed-budget best-arm "
    "identification with heterogeneous reward variances, arXiv:2306.07549",
    "xu2018": "Xu, Honda & Sugiyama (2018), A fully adaptive algorithm for pure exploration in "
    "linear bandits, arXiv:1710.05552",
}


class Script(NamedTuple):
    """A script that makes figures and tables, all of them in one run."""

    path: str  # below examples/
    options: tuple[str, ...]  # given before the user's own
    out: str  # the folder that it writes to, unless told
    time: str  # about how long, on two cores
    needs: tuple[str, ...] = ("matplotlib",)


class Entry(NamedTuple):
    """A figure or a table of a paper."""

    shows: str
    script: Script | None = None
    file: str = ""  # in the script's folder; empty: a table that is printed
    data: str = ""  # what stands in for data that the user would have to fetch
    missing: str = ""  # why there is no script


SYNTHETIC = Script("synthetic.py", (), "results/synthetic", "40 min; --quick: 1 min")
ARCH = Script(
    "arch_model_selection.py", ("--paper", "--both", "--output", "results/arch_paper"),
    "results/arch_paper", "3 min; --quick: 1 min",
)  # fmt: skip
AUTHORS = Script("author_coreference.py", (), "results/coreference", "some minutes; --quick: 2 min")
TRAFFIC, WINE, LIL, HALVING, LINEAR = (
    Script(f"best_arm/{name}.py", (), "results/best_arm", time, ("matplotlib", *more))
    for name, time, *more in (
        ("bayes_gap", "some minutes; --quick: 1 min; --full: as many runs as the paper"),
        ("bayes_gap_wine", "some minutes; --quick: 1 min; --full: half an hour", "sklearn"),
        ("lil_ucb", "some minutes; --quick: 1 min; --full: many hours"),
        ("sh_var", "5 min; --quick: 1 min; --full: an hour"),
        ("lin_gap_e", "3 min; --quick: half a minute; --full: hours"),
    )
)

BARS = "a simulated year of 5-minute returns; --data BARS.csv for a stock index"
MENTIONS = "a synthetic bibliography; --data MENTIONS.csv for labelled mentions"
SPEEDS = "simulated speeds, the paper's are not public; --data FOLDER for METR-LA"
MOVIES = "simulated ratings; --data FOLDER for MovieLens, ml-100k or ml-1m"
CLICKS = "simulated clicks; the paper's Yahoo! R6A is not free, and there is no option for it"

ENTRIES = {
    "chen2016-fig1": Entry(
        "errors, bounds and data read by races and lil'UCB, D = 10", SYNTHETIC, "figure1.png"
    ),
    "chen2016-fig2": Entry(
        "ARCH model selection: returns, log p(q), adjusted posterior, autocorrelation of q",
        ARCH, "{returns,wang_landau,adjusted_posterior,autocorrelation}.png", BARS,
    ),
    "chen2016-fig3": Entry(
        "author coreference: B3 F-1 by factors evaluated and by iteration", AUTHORS, "f1.png",
        MENTIONS,
    ),
    "chen2016-fig4": Entry("B_Normal by delta and first share of data", SYNTHETIC, "figure4.png"),
    "chen2016-fig5": Entry("as figure 1, marginal variances", SYNTHETIC, "figure5.png"),
    "chen2016-fig6": Entry("as figure 1, D = 2", SYNTHETIC, "figure6.png"),
    "chen2016-fig7": Entry("as figure 1, D = 100", SYNTHETIC, "figure7.png"),
    "chen2016-table1": Entry("B_Normal by delta and first share of data", SYNTHETIC, "table1.csv"),
    "hoffman2013-fig1": Entry(
        "a Gaussian process over ten arms, to explain the model",
        missing="it illustrates the notation; there is no experiment to repeat",
    ),
    "hoffman2013-fig2": Entry(
        "probability of error on traffic sensors, by policy", TRAFFIC, "bayes_gap_traffic.png",
        SPEEDS,
    ),
    "hoffman2013-fig3": Entry(
        "RMSE of the regression model that each policy names", WINE, "bayes_gap_wine_rmse.png"
    ),
    "hoffman2013-fig4": Entry(
        "which models BayesGap and EI try, and which they name", WINE, "bayes_gap_wine_pulls.png"
    ),
    "jamieson2014-fig1": Entry(
        "the algorithm in pseudo-code", missing="it is the algorithm itself: sm.LilUCB"
    ),
    "jamieson2014-fig2": Entry(
        "stopping times over H1, three scenarios, by K", LIL, "lil_ucb_figure2.png"
    ),
    "jamieson2014-fig3": Entry(
        "how often the leader is wrong after so many pulls", LIL, "lil_ucb_figure3.png"
    ),
    "lalitha2023-fig1": Entry(
        "means and variances of the Gaussian arms", HALVING, "sh_var_figure1.png"
    ),
    "lalitha2023-fig2": Entry(
        "errors on Gaussian arms by budget, K = 64", HALVING, "sh_var_figure2.png"
    ),
    "lalitha2023-fig3": Entry(
        "errors on Gaussian arms by K, n = 5,000", HALVING, "sh_var_figure3.png"
    ),
    "lalitha2023-fig4": Entry(
        "means and variances of rated movies", HALVING, "sh_var_figure4.png", MOVIES
    ),
    "lalitha2023-fig5": Entry(
        "errors on movies by budget, K = 64", HALVING, "sh_var_figure5.png", MOVIES
    ),
    "lalitha2023-fig6": Entry(
        "errors on movies by budget, K = 128", HALVING, "sh_var_figure6.png", MOVIES
    ),
    "xu2018-fig1": Entry(
        "pulls until the stop, a rival almost aligned with the best arm, by d", LINEAR,
        "lin_gap_e_figure1.png",
    ),
    "xu2018-fig2": Entry(
        "pulls until the stop, orthogonal arms, by gap", LINEAR, "lin_gap_e_figure2.png"
    ),
    "xu2018-fig3": Entry(
        "pulls until the stop, clicks on articles, by K", LINEAR, "lin_gap_e_figure3.png", CLICKS
    ),
    "xu2018-table1": Entry("pulls of each arm, d = 5", LINEAR),
}  # fmt: skip


def command(entry: Entry) -> str:
    """What is run, as one would type it in a checkout."""
    assert entry.script is not None
    return " ".join(["python", f"examples/{entry.script.path}", *entry.script.options])


def written(entry: Entry) -> str:
    """Where it is to be found after a run with the script's own folder."""
    assert entry.script is not None
    return f"{entry.script.out}/{entry.file}" if entry.file else "printed"


def listing() -> str:
    """All of them, by paper, for people to read."""
    lines = []
    for key, paper in PAPERS.items():
        lines += [paper, ""]
        for name, entry in ENTRIES.items():
            if not name.startswith(f"{key}-"):
                continue
            lines.append(f"  {name:19}{entry.shows}")
            if entry.script is None:
                told = [f"not reproduced: {entry.missing}"]
            else:
                told = [f"{command(entry)}   ({entry.script.time})", f"makes: {written(entry)}"]
                told += [f"data: {entry.data}"] * bool(entry.data)
            lines += [" " * 21 + line for line in told]
        lines.append("")
    lines.append(
        "`subsample-mcmc reproduce NAME` runs the command, which makes all figures of its script;\n"
        "options after NAME go to it (`--help` lists them). Without `data:` nothing is to be\n"
        "fetched. Times are for two cores."
    )
    return "\n".join(lines)
