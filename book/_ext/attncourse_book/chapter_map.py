"""The map on the cover: every chapter, and which parts of the one equation it changes.

Drawn when the book is built. A chapter that is in the book is a link, any other is marked as coming; two
drawings, one for a wide page and one for a phone, of which the style sheet shows one.
"""

from dataclasses import dataclass
from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive

PARTS = ("query, key, value", "score", "visible", "normalise", "how many")


@dataclass(frozen=True)
class Chapter:
    page: str
    title: str
    idea: str
    changes: tuple[str, ...]

    @property
    def number(self) -> str:
        return self.page[:2]


CHAPTERS = {
    "Why attention": (
        Chapter("00_what_is_attention", "What attention is", "one equation with five parts", PARTS),
        Chapter("01_seq2seq", "Seq2seq without attention", "one vector has to remember it all", ()),
        Chapter("02_soft_attention", "Soft attention", "look back at every step",
                ("query, key, value", "score")),
    ),
    "Where to look": (
        Chapter("03_hard_attention", "Hard attention", "choose one place, by sampling", ("normalise",)),
        Chapter("04_global_attention", "Global attention", "the present state asks, in simpler ways",
                ("query, key, value", "score")),
        Chapter("05_local_attention", "Local attention", "a window that moves", ("visible", "normalise")),
    ),
    "Looking at itself": (
        Chapter("06_self_attention", "Self-attention", "a sequence reads itself", ("query, key, value",)),
        Chapter("07_multi_head_attention", "Multi-head attention", "several readings at once",
                ("score", "how many")),
        Chapter("08_transformer", "Transformer", "attention is all there is",
                ("query, key, value", "visible")),
    ),
    "Pictures": (
        Chapter("09_vision_transformer", "Vision Transformer", "patches are words", ("query, key, value",)),
        Chapter("10_detr", "DETR", "queries that look for objects", ("query, key, value",)),
    ),
    "All together": (
        Chapter("11_atlas", "The atlas", "every mechanism in one table", PARTS),
    ),
}


@dataclass(frozen=True)
class Layout:
    """Measures of one drawing, in the units of its view box."""

    name: str
    width: int
    line: int       # where the line with the stations runs
    text: int       # where titles begin
    first: int      # the first column of dots
    step: int       # from one column to the next
    head: int       # height of the column heads
    row: int
    tilt: int       # of the column heads
    with_ideas: bool


WIDE = Layout("wide", 720, 16, 72, 446, 58, 78, 46, -38, True)
NARROW = Layout("narrow", 344, 9, 48, 238, 24, 106, 33, -90, False)


def draw(layout: Layout, links: dict[str, str]) -> str:
    """One drawing; `links` holds the address of every chapter that is in the book, by its page."""
    body, y = [_heads(layout)], layout.head
    stations = []
    for group, chapters in CHAPTERS.items():
        y += 30
        body.append(f'<text class="group" x="{layout.text}" y="{y - 8}">{escape(group)}</text>')
        for chapter in chapters:
            middle = y + layout.row / 2
            stations.append(middle)
            body.append(_row(layout, chapter, middle, links.get(chapter.page)))
            y += layout.row
    line = (f'<line class="line" x1="{layout.line}" x2="{layout.line}" '
            f'y1="{stations[0]}" y2="{stations[-1]}"/>')
    name = f"chapter-map-{layout.name}"
    return (
        f'<svg class="chapter-map {layout.name}" viewBox="0 0 {layout.width} {y + 6}" role="group" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">Map of the chapters</title>'
        f'<desc id="{name}-desc">{escape(in_words(links))}</desc>{line}{"".join(body)}</svg>'
    )


def _heads(layout: Layout) -> str:
    """The parts of the equation, written upwards over their columns."""
    return "".join(
        f'<text class="head" transform="translate({layout.first + i * layout.step + 4} {layout.head + 14}) '
        f'rotate({layout.tilt})">{escape(part)}</text>'
        for i, part in enumerate(PARTS)
    )


def _row(layout: Layout, chapter: Chapter, middle: float, link: str | None) -> str:
    state = "ready" if link else "coming"
    baseline = middle - 3 if layout.with_ideas else middle + 5
    text = (f'<text class="number" x="{layout.text - 14}" y="{baseline}">{chapter.number}</text>'
            f'<text class="title" x="{layout.text}" y="{baseline}">{escape(chapter.title)}</text>')
    if layout.with_ideas:
        idea = chapter.idea if link else f"{chapter.idea} (coming)"
        text += f'<text class="idea" x="{layout.text}" y="{middle + 14}">{escape(idea)}</text>'
    if link:
        text = f'<a href="{escape(link)}">{text}</a>'
    columns = [layout.first + i * layout.step for i in range(len(PARTS))]
    dots = "".join(
        f'<circle class="{"changed" if part in chapter.changes else "same"}" cx="{x}" cy="{middle}" '
        f'r="{5.5 if part in chapter.changes else 1.6}"/>'
        for x, part in zip(columns, PARTS, strict=True)
    )
    station = f'<circle class="station" cx="{layout.line}" cy="{middle}" r="6"/>'
    return f'<g class="{state}">{station}{text}{dots}</g>'


def in_words(links: dict[str, str]) -> str:
    """The picture for those who do not see it."""
    rows = []
    for chapters in CHAPTERS.values():
        for chapter in chapters:
            changes = ", ".join(chapter.changes) or "nothing, it works without attention"
            changes = "all parts" if chapter.changes == PARTS else changes
            coming = "" if chapter.page in links else " (coming)"
            rows.append(f"{chapter.number} {chapter.title}{coming}: {changes}.")
    return "Each chapter and the parts of the attention equation it changes. " + " ".join(rows)


class chapter_map(nodes.General, nodes.Element):
    pass


class ChapterMap(Directive):
    def run(self):
        return [chapter_map()]


def _visit_html(self, node):
    links = {
        chapter.page: self.builder.get_relative_uri(self.docnames[0], f"chapters/{chapter.page}")
        for chapters in CHAPTERS.values()
        for chapter in chapters
        if f"chapters/{chapter.page}" in self.builder.env.found_docs
    }
    drawings = draw(WIDE, links) + draw(NARROW, links)
    caption = ("A large dot marks a part of the equation that the chapter changes. "
               "Filled stations are ready to read, hollow ones are coming.")
    self.body.append(f'<figure class="chapter-map">{drawings}<figcaption>{caption}</figcaption></figure>')
    raise nodes.SkipNode


def _visit_other(self, node):
    raise nodes.SkipNode


def setup(app):
    app.add_node(chapter_map, html=(_visit_html, None), latex=(_visit_other, None), text=(_visit_other, None))
    app.add_directive("chapter-map", ChapterMap)
