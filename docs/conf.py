"""Configuration of the documentation site: `make docs` builds it, with warnings as errors and without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import bspforest

ROOT = Path(__file__).parents[1]

project = "bspforest"
author = "The bspforest developers"
copyright = author
version = release = bspforest.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
root_doc = "index"
default_role = "literal"  # single backticks in docstrings are code

# ----------------------------------------------------------------------------------------------------------------------
# Pages

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "bspforest"
html_static_path = ["_static"]
html_css_files = ["bspforest.css"]
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_depth": 2,
}
html_show_sourcelink = False
html_sidebars = {"start": [], "results": [], "benchmarks": [], "contributing": [], "changelog": []}

# ----------------------------------------------------------------------------------------------------------------------
# API reference

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"GL08", "PR01", "PR02", "PR03", "RT01"}
numpydoc_validation_exclude = {r"\.__init__$", r"\.tables\.(Table|Column|TableEncoder)\.(?!begin|learn|transform)"}


def skip_member(app, what, name, member, skip, options):
    """Leave out what other libraries document, and properties that the docstring of the class lists as attributes."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    module = getattr(function, "__module__", None)
    if callable(function) and module is not None and not module.startswith("bspforest"):
        return True
    if isinstance(member, property) and name.endswith("_"):
        return True
    return None


# ----------------------------------------------------------------------------------------------------------------------
# Gallery, and the pictures of "How it works"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(gallery\.py|__init__\.py)$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "matplotlib_animations": False,
    "doc_module": ("bspforest",),
    "backreferences_dir": None,
}

PICTURES = (
    "process_square", "process_times", "cut", "partition", "growth", "joint_values", "metric", "surface_classes",
)  # fmt: skip


def draw_pictures(app):
    """Draw the pictures of the pages with examples/gallery.py, on light and dark backgrounds, unless they are there."""
    folder = Path(app.srcdir) / "pictures"
    if all((folder / f"{name}{end}.png").exists() for name in PICTURES for end in ("", "-dark")):
        return
    command = [sys.executable, str(ROOT / "examples/gallery.py"), "--out", str(folder), "--only", *PICTURES]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "MPLBACKEND": "agg"})


def setup(app):
    """Connect the hooks."""
    app.connect("autodoc-skip-member", skip_member)
    app.connect("builder-inited", draw_pictures)
