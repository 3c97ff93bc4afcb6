"""The repository's address, set once outside the sources, so that a fork's book points at the fork.

`BOOK_REPOSITORY` (or GitHub's own `GITHUB_REPOSITORY`) holds `owner/name`, `BOOK_BRANCH` the branch of the
sources. With an address, pages get a button for Colab, the sources and the issues. Without one there is no
button, and what would have led to Colab leads to the page on how to run the book.

`BOOK_URL` says where the book is published, so that each page can name its one address; `BOOK_PDF`, that
the printed book lies beside it, so that the cover can lead to it.
"""

import os
import re
from dataclasses import dataclass

from sphinx.errors import ExtensionError

# The workflow that publishes the book puts there the notebooks whose first cell knows where to install from.
COLAB_BRANCH = "colab"
HOW_TO_RUN = "book/how_to_run"
LAUNCH = re.compile(r'<span class="attn-launch">(.*?)</span>', re.DOTALL)


@dataclass(frozen=True)
class Address:
    repository: str
    branch: str

    @property
    def url(self) -> str:
        return f"https://github.com/{self.repository}"

    def colab(self, page: str) -> str:
        return f"https://colab.research.google.com/github/{self.repository}/blob/{COLAB_BRANCH}/{page}.ipynb"


def find_address(environment=os.environ) -> Address | None:
    """The address that the environment names, or None."""
    repository = environment.get("BOOK_REPOSITORY") or environment.get("GITHUB_REPOSITORY")
    if not repository:
        return None
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII):
        raise ExtensionError(f"BOOK_REPOSITORY is {repository!r}: give owner/name, such as ada/attncourse")
    return Address(repository, environment.get("BOOK_BRANCH") or "main")


def find_site(environment=os.environ) -> str:
    """Where the book is published, with a slash at its end; nothing where the environment does not say it."""
    site = environment.get("BOOK_URL", "")
    if site and not re.fullmatch(r"https?://[\w.:-]+(/[\w./~-]*)?", site, re.ASCII):
        raise ExtensionError(f"BOOK_URL is {site!r}: give the whole address, such as https://ada.github.io/course/")
    return site and site.rstrip("/") + "/"


def theme_options(address: Address | None) -> dict:
    """What the theme is told: with no address, that there is no repository."""
    if address is None:
        return {"repository_url": "", "launch_buttons": {}}
    return {
        "repository_url": address.url,
        "repository_branch": address.branch,
        "use_repository_button": True,
        "use_source_button": True,
        "use_issues_button": True,
        "launch_buttons": {},
    }


def fill_launch_links(body: str, target: str) -> str:
    """Turn the placeholders that stored outputs carry into links to `target`."""
    return LAUNCH.sub(rf'<a class="attn-launch" href="{target}">\1</a>', body)


def _configure(app, config):
    config.html_theme_options = {**config.html_theme_options, **theme_options(find_address())}
    config.html_baseurl = find_site()  # Sphinx then writes each page's canonical address


def _add_launch(app, pagename, templatename, context, doctree):
    address = find_address()
    is_notebook = doctree is not None and app.env.doc2path(pagename).endswith(".ipynb")
    if is_notebook and address:
        target = address.colab(pagename)
        context["header_buttons"].insert(0, {
            "type": "link",
            "text": "Colab",
            "tooltip": "Open this chapter in Colab",
            "icon": "fas fa-rocket",
            "url": target,
            "label": "launch-colab",
        })
    else:
        target = context["pathto"](HOW_TO_RUN) if HOW_TO_RUN in app.env.found_docs else "#"
    for button in context["header_buttons"]:
        # The theme's GitHub mark would load a font of 118 kB for one icon.
        button["icon"] = button["icon"].replace("fab fa-github", "fas fa-code-branch")
    if "body" in context:
        context["body"] = fill_launch_links(context["body"], target)


def setup(app):
    if os.environ.get("BOOK_PDF"):
        app.tags.add("pdf")
    app.connect("config-inited", _configure)
    app.connect("html-page-context", _add_launch, priority=502)  # after the theme has made its buttons
