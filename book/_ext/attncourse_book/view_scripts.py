"""One script for all views of a kind on a page.

In a notebook every view carries its script, so that it stands alone. A script starts all views of its kind
that it finds before it: on a page that shows several, the last copy is enough, and the page is lighter.
"""

import re

SCRIPT = re.compile(r"<script>\(\(\) => \{.*?\}\)\(\);</script>", re.DOTALL)


def keep_last_scripts(body: str) -> str:
    """The page's body without the copies of a view's script that an identical one follows."""
    last = {match[0]: match.start() for match in SCRIPT.finditer(body)}
    return SCRIPT.sub(lambda match: match[0] if last[match[0]] == match.start() else "", body)


def _lighten(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = keep_last_scripts(context["body"])


def setup(app):
    app.connect("html-page-context", _lighten)
