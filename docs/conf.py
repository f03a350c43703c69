"""Configuration of the documentation site. `make docs` builds it without network access, and its pages load nothing."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path
from typing import Any

import energyalign

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for gallery.py
# For the examples, which are run: they must not use the network, and small networks gain nothing from threads.
os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

project = "energyalign"
author = "The energyalign developers"
project_copyright = author
version = release = energyalign.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
nitpicky = True
default_role = "code"  # single backticks in docstrings are names, as in Markdown

# Pages are Markdown that GitHub shows as well: plain links and tables, formulas in dollars.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
highlight_language = "none"  # indented blocks are commands with comments
smartquotes_action = "qe"  # keep dashes: `--compile` is an option even outside code
html_theme = "furo"
html_title = f"energyalign {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0062a0", "color-brand-content": "#0062a0"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# MathJax in one file that needs no others, from the package that brings it.
_MATHJAX = "tex-svg.js"
html_static_path += [
    str(file.locate())
    for file in importlib.metadata.files("sphinx-mathjax-offline") or []
    if file.parts[-2:] == ("mathjax", _MATHJAX)
]
mathjax_path = _MATHJAX

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say what a parameter is
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them
autodoc_default_options = {  # what scikit-learn adds by itself
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request, set_transform_request",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery.QuickFirst",
    "reset_argv": "gallery.arguments",
    "download_all_examples": False,
    "min_reported_time": 10**6,
    "show_signature": False,
    "plot_gallery": "True",
    "thumbnail_size": (400, 220),
    "default_thumb_file": str(HERE / "images" / "energies.png"),
    "write_computation_times": False,  # that page would load scripts from the network
}

# Files of the repository that have a page here: links that work on GitHub lead to these pages on the site.
_PAGES_OF_FILES = {
    r"\.\./CHANGELOG\.md": "changelog.md",
    r"\.\./CITATION\.cff": "citation.md",
    r"\.\./CONTRIBUTING\.md": "contributing.md",
    r"\.\./README\.md": "index.md",
    r"\.\./examples/?(?=\))": "auto_examples/index.rst",
    r"\.\./examples/(\w+)\.py": r"auto_examples/\1.rst",
}


def _lead_to_pages(_app: Any, _name: str, source: list[str]) -> None:
    for file, page in _PAGES_OF_FILES.items():
        source[0] = re.sub(rf"\]\({file}", f"]({page}", source[0])


def setup(app: Any) -> None:
    app.connect("source-read", _lead_to_pages)
