"""The first time a chapter says a word of the glossary, the word leads to its entry.

Chapters are plain Markdown, so that they read the same in Jupyter and in Colab; the links are made while
the book is built. Only running text gets them: paragraphs and lists, and there neither code nor formulas
nor what is a link already. A longer term goes before a shorter one in it, and each term is linked once a
page.
"""

import re
from dataclasses import dataclass

from docutils import nodes

from attncourse_book.metadata import CHINESE

GLOSSARY = "book/glossary"
CHAPTERS = "chapters/"
RUNNING_TEXT = (nodes.document, nodes.section, nodes.bullet_list, nodes.enumerated_list, nodes.list_item,
                nodes.block_quote, nodes.paragraph, nodes.strong, nodes.emphasis)
# Pages whose first mention of a word means something else, such as a detection's score.
OTHER_SENSE = {
    ("chapters/03_hard_attention", "value"),
    ("chapters/04_global_attention", "baseline"),
    ("chapters/10_detr", "score"),
}


@dataclass(frozen=True)
class Entry:
    """One entry of the glossary: the English term, the place on the page, and what it means."""

    term: str
    place: str
    meaning: str

    @property
    def pattern(self) -> str:
        """Finds the term, also in the plural and over a line's end; capitals, as in BLEU, stay capitals."""
        words = r"[-\s]+".join(re.escape(word) for word in re.split(r"[-\s]", self.term))
        if words.endswith("y"):
            words = f"{words[:-1]}(?:y|ies)"
        elif words.endswith(("s", "x", "ch", "sh")):
            words += "(?:es)?"
        else:
            words += "s?"
        return f"(?-i:{words})" if self.term.isupper() else words


def read_entries(glossary: nodes.document) -> list[Entry]:
    """The entries on the page of the glossary, without the name of the chapter behind each meaning."""
    entries = []
    for item in glossary.findall(nodes.definition_list_item):
        english = next(term for term in item.findall(nodes.term) if not CHINESE.search(term.astext()))
        paragraph = next(item.findall(nodes.paragraph))
        meaning = "".join(part.astext() for part in paragraph.children if isinstance(part, nodes.Text))
        entries.append(Entry(english.astext(), english["ids"][0], " ".join(meaning.split())))
    return entries


def link_terms(doctree: nodes.document, entries: list[Entry], glossary: str) -> list[str]:
    """Link the first occurrence of each term to its place on the page `glossary`; the terms, in order."""
    longest_first = sorted(entries, key=lambda entry: len(entry.term), reverse=True)
    # A part of a compound is another word: neither "attention" in self-attention nor "key" in key-value.
    finder = re.compile(
        rf"(?<![\w-])(?:{'|'.join(f'({entry.pattern})' for entry in longest_first)})(?![\w-])", re.IGNORECASE
    )
    linked = []

    def split(text: str):
        """The pieces of a text, links among them."""
        end = 0
        for match in finder.finditer(text):
            entry = longest_first[match.lastindex - 1]
            if entry.term in linked:
                continue
            linked.append(entry.term)
            yield nodes.Text(text[end : match.start()])
            yield nodes.reference("", match[0], internal=True, refuri=f"{glossary}#{entry.place}",
                                  reftitle=entry.meaning, classes=["glossary-term"])
            end = match.end()
        yield nodes.Text(text[end:])

    for text in list(doctree.findall(nodes.Text)):
        if _runs(text):
            pieces = [piece for piece in split(str(text)) if piece.astext()]
            text.parent.replace(text, pieces)
    return linked


def _runs(text: nodes.Text) -> bool:
    """Whether a text stands in a paragraph, and in nothing that is not running text."""
    above, at = [], text.parent
    while at is not None:
        above.append(at)
        at = at.parent
    return all(isinstance(node, RUNNING_TEXT) for node in above) and any(
        isinstance(node, nodes.paragraph) for node in above
    )


def _link(app, doctree, docname):
    if docname.startswith(CHAPTERS) and GLOSSARY in app.env.found_docs:
        if not hasattr(app, "glossary_entries"):
            app.glossary_entries = read_entries(app.env.get_doctree(GLOSSARY))
        entries = [entry for entry in app.glossary_entries if (docname, entry.term) not in OTHER_SENSE]
        link_terms(doctree, entries, app.builder.get_relative_uri(docname, GLOSSARY))


def setup(app):
    app.connect("doctree-resolved", _link)
