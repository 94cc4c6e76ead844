"""The site: `make docs` builds it, with warnings as errors. Pages are Markdown; the reference comes from docstrings."""

project = "commonground"
author = "the maintainers of commonground"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
html_theme = "pydata_sphinx_theme"
html_title = "commonground"
html_theme_options = {"navigation_with_keys": False, "show_nav_level": 2}
html_show_sourcelink = False
exclude_patterns = ["generated/*.tmp"]
root_doc = "index"
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
autosummary_generate = True
autodoc_typehints = "none"  # docstrings say it in words
autodoc_default_options = {"members": True, "inherited-members": False}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository, which are no pages


def _skip(app: object, what: str, name: str, thing: object, skip: bool, options: object) -> bool:
    """scikit-learn writes ``set_fit_request`` and its sisters by itself, with links into its own pages."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _skip)  # type: ignore[attr-defined]
