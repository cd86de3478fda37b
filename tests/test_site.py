"""The documentation site, as `make docs` built it, in a headless Chromium.

    make docs && make slow ARGS=tests/test_site.py

SUBSAMPLE_MCMC_SITE names another folder than docs/_build/html. Screenshots, at two widths, light
and dark, are written where SUBSAMPLE_MCMC_SCREENSHOTS says.
"""

import functools
import http.server
import os
import re
import tempfile
import threading
from pathlib import Path

import pytest

from tests.helpers.browser import Browser, chromium

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent
SITE = Path(os.environ.get("SUBSAMPLE_MCMC_SITE", ROOT / "docs" / "_build" / "html"))
WIDTHS, PAGES = (390, 1400), (
    "index", "start/does-it-pay", "start/coming-from", "guides/control-variates", "gallery/index",
    "gallery/mixture", "gallery/crossed", "gallery/five_ways", "how/thinning", "reference/index",
    "reference/made/Metropolis", "reference/made/promises", "reference/made/rooms", "papers",
    "benchmarks",
)  # fmt: skip


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    """Where the site is served, on this machine."""
    if not (SITE / "index.html").exists():
        pytest.skip(f"there is no site in {SITE.name}: `make docs` builds it")
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(address):
    pytest.importorskip("tornado", reason="tornado speaks to the browser: `make docs` brings it")
    if chromium() is None:
        pytest.skip("there is no chromium: apt install chromium")
    place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with place as folder, Browser(Path(folder)) as tab:
        yield tab


@pytest.fixture(autouse=True)
def silent(browser, address):
    """After each test: nothing was asked of another machine, and the console is empty."""
    yield
    elsewhere = [u for u in browser.requests if not u.startswith((address, "data:", "blob:"))]
    assert not elsewhere, elsewhere
    assert not browser.complaints, browser.complaints


def test_what_leaves_the_machine_or_complains_is_noticed(browser):
    """Else all tests would pass on a site that fetches its fonts."""
    page = "<img src='http://elsewhere.invalid/x.png'><script>console.error('no')</script>"
    browser.open("data:text/html," + page)
    browser.until("document.images[0].complete")
    assert "http://elsewhere.invalid/x.png" in browser.requests
    assert any("no" in complaint for complaint in browser.complaints)
    browser.requests.clear()
    browser.complaints.clear()


def test_the_front_page_shows_what_it_is(browser, address):
    browser.open(address + "index.html")
    assert "reads only the data it needs" in browser.say("document.title")
    assert "You write the log likelihood of one datum" in browser.say("document.body.innerText")
    picture = "[...document.querySelectorAll('main img')][0]"
    assert browser.say(f"{picture}.complete && {picture}.naturalWidth > 100")
    links = browser.say("[...document.querySelectorAll('header .nav-link')].map(a => a.innerText)")
    assert {"Start", "Guides", "Gallery", "Reference"} <= {link.strip() for link in links}


def click(browser, selector, leads_to):
    """Click a link of the page that is seen; wait for the page that it leads to."""
    browser.say(f"document.querySelector({selector!r}).click()")
    browser.until(f"location.href.endsWith({leads_to!r}) && document.readyState === 'complete'")


@pytest.mark.parametrize("model", ["logistic-regression", "mixture", "change-point"])
def test_three_clicks_lead_from_the_front_page_to_a_model_in_pymc_and_here(browser, address, model):
    browser.open(address + "index.html")
    click(browser, "main .sd-card a[href='start/index.html']", "start/index.html")
    click(browser, "main td a[href='coming-from.html']", "start/coming-from.html")
    click(browser, f"main p a[href='#{model}']", f"#{model}")
    browser.until(f"Math.abs(document.getElementById('{model}').getBoundingClientRect().top) < 500")
    tabs = f"[...document.querySelectorAll('#{model} .sd-tab-label')].map(label => label.innerText)"
    assert {"subsample_mcmc", "PyMC"} <= {*browser.say(tabs)}
    shown = browser.say(f"document.querySelector('#{model} pre').innerText")
    assert "import subsample_mcmc as sm" in shown and "sm.sample(" in shown
    browser.say(f"document.querySelectorAll('#{model} .sd-tab-label')[1].click()")
    theirs = f"[...document.querySelectorAll('#{model} pre')].filter(pre => pre.offsetHeight > 0)"
    assert "import pymc as pm" in browser.say(f"{theirs}[0].innerText")


def test_a_search_for_gibbs_finds_the_kernel(browser, address):
    browser.open(address + "search.html?q=Gibbs")
    browser.until("document.querySelectorAll('#search-results li a').length > 3")
    found = browser.say("[...document.querySelectorAll('#search-results li a')].map(a => a.href)")
    assert any("reference/made/Gibbs.html" in link for link in found[:5]), found[:5]


def test_a_page_of_the_gallery_shows_its_picture(browser, address):
    browser.open(address + "gallery/index.html")
    cards = browser.say(
        "[...document.querySelectorAll('.card-of-page img')].map(i => i.naturalWidth)"
    )
    assert len(cards) >= 26 and min(cards) > 100
    browser.open(address + "gallery/mixture.html")
    widths = browser.say(
        "[...document.querySelectorAll('.cell_output img')].map(i => i.naturalWidth)"
    )
    assert widths and min(widths) > 100


def test_the_reference_shows_signatures_and_defaults(browser, address):
    browser.open(address + "reference/made/Metropolis.html")
    told = browser.say("document.querySelector('dt.sig').innerText")
    assert re.sub(r"\s+", " ", told).startswith("class sm.Metropolis(block, scale=0.1, proposal=")
    links = browser.say("[...document.querySelectorAll('dd a')].map(a => a.getAttribute('href'))")
    assert any("pcn.html#sm.pcn" in link for link in links)


def test_names_by_room_lead_to_their_pages(browser, address):
    browser.open(address + "reference/made/rooms.html")
    links = browser.say(
        "[...document.querySelectorAll('article a')].map(a => [a.innerText, a.href])"
    )
    led = {name: link.rpartition("/")[2] for name, link in links}
    assert led["sm.rules.Normal"] == led["sm.Normal"] == "Normal.html#sm.Normal"
    assert led["sm.bandits.UCBE"] == "sm.bandits.html#sm.bandits.UCBE"


def test_formulas_are_drawn_by_the_browser_itself(browser, address):
    browser.open(address + "how/thinning.html")
    height = browser.say(
        "document.querySelector('.math-display math').getBoundingClientRect().height"
    )
    assert height > 15


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_and_are_light_or_dark(browser, address, page, width, dark):
    browser.open(f"{address}{page}.html", width, dark)
    assert browser.say("document.documentElement.scrollWidth") <= width
    colour = browser.say("getComputedStyle(document.body).backgroundColor")
    shade = sum(int(part) for part in re.findall(r"\d+", colour)[:3])
    assert (shade < 200) if dark else (shade > 600), colour
    assert "site-packages" not in browser.say("document.body.innerText")  # a warning of a cell
    folder = os.environ.get("SUBSAMPLE_MCMC_SCREENSHOTS")
    if folder:
        name = f"{page.replace('/', '-')}-{width}-{'dark' if dark else 'light'}.png"
        browser.picture(Path(folder) / name)
