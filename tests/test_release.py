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
    assert re.search(r"^permissions:( \{\}|\n  contents: read)$", words, re.MULTILINE)
    assert "pull_request_target" not in words and "secrets." not in words
    for run in re.findall(r"run: (\.\S+)", words):
        assert (ROOT / run).is_file()


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
