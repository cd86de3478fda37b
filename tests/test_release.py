"""What a release is made of agrees with itself: versions, the citation file, workflows."""

import re
import tomllib
from pathlib import Path

import pytest

import subsample_mcmc as sm

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_there_is_one_version():
    project = tomllib.loads(text("pyproject.toml"))
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "subsample_mcmc/__init__.py"
    (cited,) = re.findall(r"^version: (\S+)$", text("CITATION.cff"), re.MULTILINE)
    newest = re.search(r"^## \[([\d.]+)\] - ", text("CHANGELOG.md"), re.MULTILINE)
    assert {cited, newest[1]} == {sm.__version__}


def test_what_is_cited_is_the_papers_entry():
    (known,) = re.findall(r"@inproceedings\{chen2016,(.*?)\n\}", text(
        "subsample_mcmc/cli/references.bib"
    ), re.DOTALL)  # fmt: skip
    fields = dict(re.findall(r"(\w+) = \{(.*)\}", known))
    cited = text("CITATION.cff")
    assert all(fields[name] in cited for name in ("title", "year", "booktitle", "eprint"))


def test_the_source_distribution_has_what_the_checkout_has():
    include = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    for path in ("CITATION.cff", ".github", ".ci", "tests", "examples", "notebooks"):
        assert f"/{path}" in include["include"] and (ROOT / path).exists()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_do_little(path):
    words = path.read_text(encoding="utf-8")
    assert re.search(r"^permissions:\n  contents: read$", words, re.MULTILINE)
    assert "pull_request_target" not in words and "secrets." not in words
    for run in re.findall(r"run: (\.\S+)", words):
        assert (ROOT / run).is_file()
    used = re.findall(r"uses: (.*)", words)  # by commit: a tag can be moved to other code
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action) for action in used)


def test_a_release_starts_by_hand_only():
    words = text(".github/workflows/release.yml")
    (events,) = re.findall(r"^on:\n((?:  .*\n|\n)+)", words, re.MULTILINE)
    assert re.findall(r"^  (\w+):", events, re.MULTILINE) == ["workflow_dispatch"]
    assert words.count("id-token: write") == 1
    assert re.search(r"default: testpypi$", words, re.MULTILINE)
    assert "run: .ci/run" in text(".github/workflows/ci.yml")


def test_what_contributors_look_for_is_there():
    for name in ("CODE_OF_CONDUCT.md", "SECURITY.md", "RELEASING.md", "ISSUE_TEMPLATE/bug.yml"):
        assert len(text(f".github/{name}")) > 200


# ------------------------------------------------------------------------------------- conda
RECIPE = "tools/conda/recipe.yaml"


def recipe(words):
    """What a recipe says, by keys of two levels, without a reader of YAML; `${{ }}` filled in."""
    context = dict(re.findall(r'^  (\w+): "([\d.]+)"$', words, re.MULTILINE))
    words = re.sub(r"\$\{\{ (\w+) \}\}", lambda m: context.get(m[1], m[0]), words)
    found = {}
    for title, body in re.findall(r"^(\w+):\n((?:  .*\n|\n)+)", words, re.MULTILINE):
        for key, value, lines in re.findall(r"^  (\w+):(.*)\n((?:    .*\n)*)", body, re.MULTILINE):
            listed = re.findall(r"^ +- (.+)$", lines, re.MULTILINE)
            found[f"{title}.{key}"] = listed or value.strip().strip('"')
    return found


def spaced(requirements):
    """As conda writes them: a blank before the version."""
    return [re.sub(r"(?<=\w)(?=[<>=])", " ", requirement) for requirement in requirements]


def of_project():
    """The same of pyproject.toml."""
    whole = tomllib.loads(text("pyproject.toml"))
    project, needs = whole["project"], whole["build-system"]["requires"]
    python = project["requires-python"]
    return {
        "package.name": project["name"],
        "package.version": sm.__version__,
        "build.python": [f"{name} = {place}" for name, place in project["scripts"].items()],
        "requirements.host": [f"python {python.removeprefix('>=')}.*", "pip", *spaced(needs)],
        "requirements.run": ["__unix", f"python {python}", *spaced(project["dependencies"])],
        "about.license": project["license"],
        "about.summary": project["description"],
    }


def test_the_recipe_for_conda_is_what_the_project_says():
    words, wanted = text(RECIPE), of_project()
    assert wanted.items() <= recipe(words).items()
    for one, other in (
        ("- pandas >=2.1\n", ""), ("numba >=0.61", "numba >=0.60"), ("host:", "build:"),
        (f'version: "{sm.__version__}"', 'version: "0.1"'), ('python_min: "3.11"', "python_min: 1"),
        ("cli.main:main", "cli:main"), ("BSD-3-Clause", "MIT"), ("- __unix", "- __unix\n    - x"),
    ):  # fmt: skip
        assert words.count(one) == 1
        assert not wanted.items() <= recipe(words.replace(one, other)).items(), other


def test_the_recipe_for_conda_can_be_read():
    """By rattler-build, which refuses keys that it does not know and what is no requirement."""
    rattler = pytest.importorskip("rattler_build", reason="pip install py-rattler-build")
    (found,) = rattler.Stage0Recipe.from_file(str(ROOT / RECIPE)).render(rattler.VariantConfig())
    said, wanted = found.recipe.to_dict(), of_project()
    assert said["package"] == {"name": wanted["package.name"], "version": sm.__version__}
    assert said["requirements"]["run"] == wanted["requirements.run"]
    with pytest.raises(Exception, match="requirement"):
        rattler.Stage0Recipe.from_yaml(text(RECIPE).replace("requirements:", "requirement:"))
