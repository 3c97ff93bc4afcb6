"""What a page says of itself: a description, the card shown where its link is shared, languages."""

import re
from html import escape

from docutils import nodes

LONGEST = 180
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def describe(doctree: nodes.document) -> str:
    """The first paragraph that is prose, cut at a word."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, nodes.section) and len(text) > 40:
            return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " …"
    return ""


def card(title: str, description: str, site: str, address: str = "") -> str:
    """The meta elements of a page; its address, where it is known."""
    meta = {
        'name="description"': description,
        'property="og:type"': "article",
        'property="og:site_name"': site,
        'property="og:title"': title,
        'property="og:description"': description,
        'property="og:url"': address,
    }
    return "\n".join(f'<meta {key} content="{escape(value)}">' for key, value in meta.items() if value)


def _add_card(app, pagename, templatename, context, doctree):
    if doctree is not None:
        given = app.env.metadata[pagename].get("description")
        title = app.env.titles[pagename].astext()
        description, address = given or describe(doctree), context.get("pageurl") or ""
        context["metatags"] += card(title, description, app.config.html_title, address)


def _mark_languages(app, doctree):
    """Chinese terms of the glossary, so that a screen reader changes its voice and a browser its font."""
    for term in doctree.findall(nodes.term):
        if CHINESE.search(term.astext()):
            term["classes"].append("language-zh-Hans")


def setup(app):
    app.connect("html-page-context", _add_card)
    app.connect("doctree-read", _mark_languages)
