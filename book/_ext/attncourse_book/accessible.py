"""What the theme and Sphinx leave unsaid to a screen reader, mended in each page's HTML.

axe-core finds these in the built book (tests/book/test_accessible.py): a fold of the contents without a
name, the parameters of a long signature as a list of definitions that defines nothing, and references whose
list holds no items.
"""

import re

FOLD = '<summary><span class="toctree-toggle"'
PARAMETERS = re.compile(r'<dl>\s*((?:<dd><em class="sig-param">.*?</dd>\s*)+)</dl>', re.DOTALL)


def name_folds(contents: str) -> str:
    """The contents at the side: say what a fold folds."""
    return contents.replace(FOLD, FOLD.replace("<summary>", '<summary aria-label="Pages of this part">'))


def mend(body: str) -> str:
    """A page's body with signatures and references as lists that hold what such a list must hold."""
    body = PARAMETERS.sub(
        lambda found: '<span class="sig-params">'
        + found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>") + "</span>",
        body,
    )
    return body.replace('role="doc-biblioentry"', 'role="listitem"')


def _mend(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = mend(context["body"])
    draw = context.get("generate_toctree_html")
    if draw:
        context["generate_toctree_html"] = lambda *given, **options: name_folds(str(draw(*given, **options)))


def setup(app):
    app.connect("html-page-context", _mend, priority=900)  # after the theme has made its functions
