"""Sphinx configuration: Markdown through MyST, a plain theme."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

project = "aevnmt_tf"
author = "the aevnmt_tf developers"
copyright = "2026, the aevnmt_tf developers"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "*.ipynb"]

html_theme = "furo"
html_title = "aevnmt_tf"
html_static_path = ["_static"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
# `default` and `optional` mark optional arguments in Google docstrings, not classes.
nitpicky = False
