"""The documentation site: `make docs` builds it. Warnings are errors, notebooks are executed."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
# What notebooks import is this checkout; what they compile is kept where the package keeps it.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")])
)
# Kernels have no profile of the user's, and say errors only.
profile = HERE / "_build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
os.environ["IPYTHONDIR"] = str(profile.parent)
os.environ.pop("MPLBACKEND", None)  # figures are shown in pages, whatever it is where this runs
# A widget that Jupyter lacks here; ArviZ's announcement of its own next version.
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found,ignore::FutureWarning"

from subsample_mcmc import __version__  # noqa: E402

project = "subsample_mcmc"
author = "the subsample_mcmc developers"
copyright = author
version = release = __version__

extensions = [
    "myst_nb", "sphinx_design", "sphinx_copybutton", "mathml", "names", "reference", "gallery",
]  # fmt: skip
exclude_patterns = ["_build", "_ext", "**.ipynb_checkpoints"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext", ".ipynb": "myst-nb"}

# ---------------------------------------------------------------------------------- what is read
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # nothing is fetched
nitpicky = True
suppress_warnings = ["mystnb.unknown_mime_type"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
highlight_language = "none"
smartquotes = False  # code in docstrings is not marked as such

# --------------------------------------------------------------------------------- what is written
html_theme = "pydata_sphinx_theme"
html_title = "subsample_mcmc"
html_favicon = "_static/mark.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_use_index = True
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "changelog": [], "papers": [], "benchmarks": [], "extend": []}
pygments_style = "tango"
