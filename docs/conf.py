"""Sphinx configuration; `sphinx-build -W -b html docs docs/_build/html` builds everything."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

import qsim  # noqa: E402

project = "qsim"
author = "The qsim developers"
copyright = "2026, The qsim developers"
version = release = qsim.__version__

extensions = ["myst_parser", "sphinx_click", "contents", "decks", "offline_math", "quantities", "schemas"]
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"qsim {version}"
html_show_sourcelink = False
