"""The command line: what it prints, what it writes, and how it ends."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import subsample_mcmc as sm
from subsample_mcmc.cli import main, papers, stored
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.store import frames, store
from tests.helpers import runs

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("demo", "reproduce", "bench", "report", "resume", "cite")
# Figures and tables of each paper.
PRINTED = {
    "chen2016": (7, 1), "hoffman2013": (4, 0), "jamieson2014": (3, 0), "lalitha2023": (6, 0),
    "xu2018": (3, 1),
}  # fmt: skip
# A script that defines `model` and `kernel` as functions, with the same code as the runs below.
SCRIPT = ROOT / "tests" / "helpers" / "runs.py"


def called(capfd, *arguments):
    """Exit code, stdout and stderr of a command."""
    code = main.main([str(word) for word in arguments])
    return code, *capfd.readouterr()


def failed(capfd, *arguments):
    """The message of a command that must fail: one line, nothing on stdout."""
    code, out, err = called(capfd, *arguments)
    assert code == 1 and out == "", out
    assert err.startswith("subsample-mcmc: ") and err.count("\n") == 1, err
    return err


@pytest.fixture(scope="module")
def whole():
    """A run in memory that was never stopped."""
    return runs.run()


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """The bytes of that run as it would be stored while it goes on, in many frames."""
    path = tmp_path_factory.mktemp("journal") / "run.nc"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "finish", lambda path: None)
        patch.setattr(parallel, "CHUNK_SECONDS", 0.0)
        patch.setattr(parallel, "TURN_SECONDS", 0.0)
        runs.run(store=path)
    return path.read_bytes()


@pytest.fixture
def stopped(tmp_path, journal):
    """A run that was killed as it wrote: some draws, and a torn frame at the end."""
    path = tmp_path / "run.nc"
    last = journal.rindex(frames.MARK)
    path.write_bytes(journal[: last + 20])
    assert all(draws > 0 for draws in store.peek(path).draws) and min(store.peek(path).draws) < 60
    return path


@pytest.fixture
def begun(tmp_path, journal):
    """A run that was killed before its first draw."""
    path, ends = tmp_path / "begun.nc", re.finditer(re.escape(frames.MARK), journal)
    for end in [found.start() for found in ends][2:]:
        path.write_bytes(journal[:end])
        if any(saved is not None for saved in store.peek(path).checkpoints):
            break
    assert store.peek(path).draws == [0, 0]
    return path


@pytest.fixture
def finished(tmp_path, journal):
    """The run, complete."""
    path = tmp_path / "done.nc"
    path.write_bytes(journal)
    store.finish(path)
    return path


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A folder of examples and benchmarks of our own, quick ones."""
    place = tmp_path / "shipped"
    (place / "examples").mkdir(parents=True)
    (place / "tests" / "benchmarks").mkdir(parents=True)
    monkeypatch.setattr(main, "root", lambda: place)
    return place


# ---------------------------------------------------------------------------------------- words
def test_help_names_every_command_and_shows_examples(capfd):
    code, out, err = called(capfd, "--help")
    assert code == 0 and err == ""
    commands, _, examples = out.partition("examples:")
    for name in COMMANDS:
        assert re.search(rf"^    {name} +\w", commands, re.MULTILINE), name
        assert f"subsample-mcmc {name}" in examples, name
    assert set(main.parsers()[1]) >= set(COMMANDS)
    assert called(capfd) == (0, out, "")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_every_command_has_help(capfd, name):
    code, out, _ = called(capfd, name, "--help")
    assert code == 0 and f"usage: subsample-mcmc {name}" in out and len(out) > 200


def test_version(capfd):
    assert called(capfd, "--version") == (0, f"subsample-mcmc {sm.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("reprot", "run.nc"), "report"),
        (("reproduce", "chen2016-figure5"), "chen2016-fig5"),
        (("bench", "drawz"), "draws"),
    ],
)
def test_a_wrong_name_is_told_the_nearest(capfd, words, near):
    code, out, err = called(capfd, *words)
    assert code == 2 and out == "" and f"did you mean {near}" in err, err


def test_a_name_like_no_other_is_told_all(capfd):
    code, _, err = called(capfd, "zzz")
    assert code == 2 and all(name in err for name in COMMANDS)


@pytest.mark.parametrize("words", [("report",), ("resume", "a", "b"), ("report", "a", "--nope")])
def test_misuse_is_2(capfd, words):
    code, out, err = called(capfd, *words)
    assert code == 2 and out == "" and err.startswith("usage: subsample-mcmc ")


def test_ctrl_c_is_130(capfd, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(stored, "report", interrupted)
    assert called(capfd, "report", "run.nc") == (130, "", "subsample-mcmc: stopped by Ctrl-C\n")


def test_traceback_on_request(capfd, tmp_path):
    with pytest.raises(sm.StoreError):
        main.main(["--traceback", "report", str(tmp_path / "none.nc")])


# ------------------------------------------------------------------------------------- the list
def sources(path):
    """The text of a script and of its neighbours that it imports."""
    texts, todo = {}, [path]
    while todo:
        path = todo.pop()
        if path in texts or not path.is_file():
            continue
        texts[path] = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(texts[path])):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            todo += [path.parent / f"{name}.py" for name in names]
    return "\n".join(texts.values())


@pytest.mark.parametrize("name", papers.ENTRIES)
def test_every_entry_has_a_script_that_takes_its_options(name):
    entry = papers.ENTRIES[name]
    assert name.partition("-")[0] in papers.PAPERS and entry.shows
    if entry.script is None:
        assert entry.missing
        return
    path = ROOT / "examples" / entry.script.path
    assert path.is_file() and not entry.missing
    text = sources(path)
    known = set(re.findall(r"""add(?:_argument)?\(\s*["'](--[\w-]+)["']""", text))
    told = re.findall(r"--[\w-]+", " ".join([*entry.script.options, entry.script.time, entry.data]))
    assert "--quick" in told and set(told) <= known, known
    for output in re.findall(r"[\w{},]+\.(?:png|csv)", entry.file):
        for stem in output.rpartition(".")[0].strip("{}").split(","):
            numbered = re.sub(r"\d+$", "{number}", stem)
            assert re.search(rf"[\"/]({re.escape(stem)}|{re.escape(numbered)})[\".]", text), stem
    assert f'"{entry.script.out}"' in text or entry.script.out in entry.script.options
    assert ("--data" in entry.data) <= ("--data" in known)


def test_every_figure_and_table_of_the_papers_is_listed():
    for paper, counts in PRINTED.items():
        for kind, count in zip(("fig", "table"), counts, strict=True):
            found = [n for n in papers.ENTRIES if n.startswith(f"{paper}-{kind}")]
            assert found == [f"{paper}-{kind}{i + 1}" for i in range(count)]
    assert sum(map(sum, PRINTED.values())) == len(papers.ENTRIES)


@pytest.mark.parametrize("words", [("reproduce", "--list"), ("reproduce",)])
def test_the_list_says_what_how_long_and_what_data(capfd, words):
    code, out, err = called(capfd, *words)
    assert code == 0 and err == ""
    parts = dict(zip(papers.ENTRIES, re.split(r"^  (?=\w)", out, flags=re.M)[1:], strict=True))
    for name, entry in papers.ENTRIES.items():
        assert parts[name].startswith(name) and entry.shows in parts[name]
        if entry.script is None:
            assert f"not reproduced: {entry.missing}" in parts[name]
        else:
            assert papers.command(entry) in parts[name] and entry.script.time in parts[name]
            assert entry.data in parts[name]


def test_what_is_not_reproduced_says_why(capfd):
    err = failed(capfd, "reproduce", "hoffman2013-fig1")
    assert "not reproduced" in err and "no experiment" in err


@pytest.mark.parametrize("words", [("bench", "--list"), ("bench",)])
def test_benchmarks_are_listed(capfd, words):
    code, out, _ = called(capfd, *words)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert code == 0
    assert {
        "draws", "chains", "first_draw", "bandits", "backends", "tall", "arch", "coreference",
    } <= set(lines)  # fmt: skip
    assert "machine" not in lines and all(text.endswith(".") for text in lines.values())


# ---------------------------------------------------------------------------------- the scripts
def test_options_go_to_the_script(capfd, monkeypatch):
    launched = []
    monkeypatch.setattr(main, "launch", lambda arguments: launched.append(arguments) or 0)
    demo = str(ROOT / "examples" / "arch_model_selection.py")
    assert main.main(["demo"]) == main.main(["demo", "--quick", "--output", "there"]) == 0
    assert launched == [[demo], [demo, "--quick", "--output", "there"]]
    launched.clear()
    code, out, err = called(capfd, "reproduce", "chen2016-fig2", "--quick", "--output", "there")
    assert code == 0 and "autocorrelation" in out and "--paper --both" in err
    preset = ["--paper", "--both", "--output", "results/arch_paper"]
    assert launched == [[demo, *preset, "--quick", "--output", "there"]]
    launched.clear()
    assert main.main(["bench", "draws", "--sizes", "1e4", "--list"]) == 0
    assert launched[0][-4:] == ["draws", "--sizes", "1e4", "--list"]


def test_a_script_is_a_program_of_its_own(capfd, shipped, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (shipped / "examples" / "neighbour.py").write_text("number = 7\n")
    (shipped / "examples" / "arch_model_selection.py").write_text(
        "import sys, os, neighbour, subsample_mcmc.errors\n"
        "if __name__ == '__main__':\n"
        "    print(sys.argv[1:], neighbour.number, os.getcwd())\n"
        "    sys.exit(int(sys.argv[1]))\n"
    )
    for code in (0, 3):
        told = f"['{code}', '--x'] 7 {tmp_path}\n"
        assert called(capfd, "demo", code, "--x") == (code, told, "")


def test_a_benchmark_is_ours_whatever_else_is_called_tests(capfd, shipped, monkeypatch, tmp_path):
    other = tmp_path / "tests" / "benchmarks"
    other.mkdir(parents=True)
    for folder in (other, other.parent):
        (folder / "__init__.py").write_text("raise RuntimeError('the wrong tests')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bench = shipped / "tests" / "benchmarks"
    (bench / "number.py").write_text("number = 7\n")
    (bench / "speed.py").write_text(
        '"""How fast it is."""\n'
        "import sys\n"
        "early = 'numpy' in sys.modules\n"
        "from tests.benchmarks.number import number\n"
        'if __name__ == "__main__":\n'
        "    print(number, early, sys.argv[0].endswith('speed.py'), sys.argv[1:])\n"
    )
    assert called(capfd, "bench") == (0, "speed  How fast it is.\n", "")
    assert called(capfd, "bench", "speed", "--x") == (0, "7 False True ['--x']\n", "")


def test_a_script_that_is_stopped(shipped):
    """Ctrl-C reaches the script, which may write what it has; the command ends with 130."""
    (shipped / "examples" / "arch_model_selection.py").write_text(
        "import sys, time\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(100)\n"
        "except KeyboardInterrupt:\n"
        "    print('wrote what there is')\n"
    )
    program = (
        "import sys, signal, pathlib\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from subsample_mcmc.cli import main\n"
        "main.root = lambda: pathlib.Path(sys.argv[1])\n"
        "sys.exit(main.main(['demo']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(shipped)], env=runs.environment(), text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "wrote what there is\n"
    assert process.returncode == 130


def test_a_missing_extra_is_named(capfd, monkeypatch):
    monkeypatch.setattr(main.importlib.util, "find_spec", lambda name: None)
    assert "pip install 'subsample-mcmc[plots]'" in failed(capfd, "demo")
    assert "pip install 'subsample-mcmc[plots,learn]'" in failed(
        capfd, "reproduce", "hoffman2013-fig3"
    )


def test_the_wheel_brings_what_the_commands_run():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)
    assert project["project"]["scripts"] == {"subsample-mcmc": "subsample_mcmc.cli.main:main"}
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert shipped == {
        place: f"subsample_mcmc/scripts/{place}" for place in ("examples", "tests/benchmarks")
    }
    for path in ROOT.glob("tests/benchmarks/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                assert node.module.startswith("tests.benchmarks"), f"{path} needs {node.module}"


def test_scripts_are_found_beside_the_package_or_in_it(tmp_path, monkeypatch):
    assert main.root() == ROOT
    monkeypatch.setattr(main, "PACKAGE", tmp_path / "site" / "subsample_mcmc")
    with pytest.raises(FileNotFoundError, match="install the package anew"):
        main.root()
    inside = tmp_path / "site" / "subsample_mcmc" / "scripts"
    (inside / "examples").mkdir(parents=True)
    (inside / "examples" / "arch_model_selection.py").touch()
    assert main.root() == inside


@pytest.mark.slow
def test_a_benchmark_runs(capfd):
    code, out, _ = called(capfd, "bench", "first_draw")
    assert code == 0 and '"first wall"' in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", sorted({e.script.path for e in papers.ENTRIES.values() if e.script})
)
def test_every_script_starts(capfd, script):
    name = next(n for n, e in papers.ENTRIES.items() if e.script and e.script.path == script)
    code, out, _ = called(capfd, "reproduce", name, "--help")
    assert code == 0 and out.startswith(f"usage: {Path(script).name}") and "--quick" in out


# --------------------------------------------------------------------------------------- report
@pytest.mark.slow
def test_report_of_a_complete_run(capfd, finished, tmp_path):
    code, out, err = called(capfd, "report", finished)
    page = tmp_path / "done.html"
    assert code == 0 and err == "" and out.endswith(f"A page with figures: {page}\n")
    assert out.startswith(str(sm.load(finished).report()))
    text = page.read_text(encoding="utf-8")
    assert "<html" in text.lower() and text.rstrip().endswith("</html>")


def test_report_of_a_run_that_was_killed(capfd, stopped, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(stored.webbrowser, "open", lambda uri: opened.append(uri) or True)
    before = stopped.read_bytes()
    page = tmp_path / "page.html"
    code, out, err = called(capfd, "report", stopped, "--html", page, "--open")
    least, most = min(store.peek(stopped).draws), max(store.peek(stopped).draws)
    assert code == 0 and "not complete" in err and "of 60" in err
    assert (f"{least} to {most}" if most > least else f" {least} ") in err
    assert f"{least} draws" in out and page.exists() and opened == [page.as_uri()]
    assert stopped.read_bytes() == before and not stopped.with_suffix(".html").exists()


def test_report_mistakes(capfd, finished, begun, tmp_path, monkeypatch):
    assert "No such file" in failed(capfd, "report", tmp_path / "none.nc")
    assert "is not a run" in failed(capfd, "report", ROOT / "README.md")
    assert "is the run itself" in failed(capfd, "report", finished, "--html", finished)
    nowhere = failed(capfd, "report", finished, "--html", tmp_path / "none" / "page.html")
    assert f"{tmp_path / 'none'}, where the page is to go, is not a folder" in nowhere
    err = failed(capfd, "report", begun)
    assert "no draws yet" in err and "1 begun: in warm-up" in err

    def no_figures(trace):
        raise ImportError("figures need matplotlib")

    monkeypatch.setattr("subsample_mcmc.runs.views.html_page.page", no_figures)
    code, out, err = called(capfd, "report", finished)
    assert code == 1 and "guarantee" in out and err == "subsample-mcmc: figures need matplotlib\n"


@pytest.mark.slow
def test_report_as_a_process(stopped, tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", "subsample_mcmc", "report"]

    def process(path):
        return subprocess.run(
            [*command, str(path)], capture_output=True, text=True, check=False, timeout=300,
            env=runs.environment() | {"MPLBACKEND": "Agg"},
        )  # fmt: skip

    done = process(stopped)
    assert done.returncode == 0 and "guarantee" in done.stdout, done.stderr
    assert stopped.with_suffix(".html").exists()
    missing = process(tmp_path / "none.nc")
    assert missing.returncode == 1 and missing.stdout == "" and missing.stderr.count("\n") == 1


def test_whoever_reads_may_have_enough():
    with subprocess.Popen(
        [sys.executable, "-m", "subsample_mcmc", "reproduce", "--list"], env=runs.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


# --------------------------------------------------------------------------------------- resume
def test_resume_gives_the_draws_of_a_run_never_stopped(capfd, stopped, whole):
    code, out, err = called(capfd, "resume", stopped, "--script", SCRIPT, "--cores", 1)
    assert code == 0 and "complete" in out and "chain 0" in err  # the progress bar
    found = sm.load(stopped)
    assert runs.same(found, whole) and runs.same_states(found, whole)


def test_resume_goes_further_than_asked(capfd, finished, whole):
    code, out, _ = called(capfd, "resume", finished)
    assert code == 0 and "The run is complete" in out and "--script SCRIPT --draws 120" in out
    assert called(capfd, "resume", finished, "--draws", 60)[0] == 0
    code, out, _ = called(capfd, "resume", finished, "--script", SCRIPT, "--draws", 70)
    assert code == 0 and "2 chains x 70 draws of 70" in out
    found = sm.load(finished)
    assert found.shape == (2, 70) and runs.same(whole, found, head=60)
    assert "larger total" in failed(capfd, "resume", finished, "--script", SCRIPT, "--draws", 50)


def test_resume_without_a_script_says_what_the_file_knows(capfd, stopped):
    before = stopped.read_bytes()
    code, out, err = called(capfd, "resume", stopped)
    assert code == 2 and "--script" in err and "`model` and `kernel`" in err
    assert "k (Gibbs), theta (Metropolis)" in out and re.search(r"^seed +1$", out, re.M)
    assert "draws of 60" in out and stopped.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "does not exist"),
        ("kernel = 3\n", "defines no `model`"),
        ("model = 3\n", "`model` of .* is of type int; it must be an sm.Model"),
        ("from tests.helpers.runs import model\nkernel = 'k'\n", "`kernel` of .* of type str"),
        ("x = 1\nmodel = nothing\n", "failed in line 2: NameError"),
        ("x = 1\ndef model():\n    return 1 / 0\n", "failed in line 3: ZeroDivisionError"),
        ("x = (\n", "failed in line 1: SyntaxError"),
        ("raise SystemExit(4)\n", r"ended itself \(exit code 4\)"),
    ],
)
def test_what_a_script_does_wrong(capfd, stopped, tmp_path, text, told):
    script = tmp_path / "script.py"
    if text is not None:
        script.write_text(text)
    before, path = stopped.read_bytes(), list(sys.path)
    assert re.search(told, failed(capfd, "resume", stopped, "--script", script))
    assert stopped.read_bytes() == before and sys.path == path


def test_resume_refuses_another_model(capfd, stopped, tmp_path):
    script = tmp_path / "script.py"
    text = SCRIPT.read_text(encoding="utf-8").replace("STEP = 0.3", "STEP = 0.4")
    script.write_text(text)
    before = stopped.read_bytes()
    err = failed(capfd, "resume", stopped, "--script", script)
    assert "log_likelihood" in err and stopped.read_bytes() == before


def test_a_script_imports_its_neighbours_and_is_not_main(capfd, stopped, tmp_path, whole):
    shutil.copy(SCRIPT, tmp_path / "neighbouring.py")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from neighbouring import model, kernel\n"
        "assert len(sys.argv) == 1 and __name__ != '__main__'\n"
        "model, kernel = model(), kernel()\n"
    )
    try:
        assert called(capfd, "resume", stopped, "--script", script)[0] == 0
    finally:
        sys.modules.pop("neighbouring", None)
    assert runs.same(sm.load(stopped), whole)


def test_resume_that_is_stopped_is_130(capfd, stopped, monkeypatch):
    def interrupted(path, *_, **__):
        trace = sm.load(path)
        trace.interrupted = True
        return trace

    monkeypatch.setattr(stored, "go_on", interrupted)
    code, out, err = called(capfd, "resume", stopped, "--script", SCRIPT)
    assert code == 130 and "not complete" in out and "goes on from here" in err


# ----------------------------------------------------------------------------------------- cite
def test_cite(capfd, stopped, tmp_path):
    code, out, err = called(capfd, "cite", stopped)
    assert code == 0 and err == "" and out == sm.cite(sm.load(stopped)) + "\n"
    assert "@" in out and "Chen" in out
    assert called(capfd, "cite") == (0, sm.cite() + "\n", "")
    assert "No such file" in failed(capfd, "cite", tmp_path / "none.nc")
