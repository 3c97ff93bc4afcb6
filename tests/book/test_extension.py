"""The Sphinx extension's functions, one by one: addresses, mathematics, icons, the map, links, times."""

import base64
import gzip
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from attncourse_book import (
    accessible,
    address,
    chapter_map,
    docstrings,
    figures,
    glossary_links,
    icons,
    mathematics,
    metadata,
    stored_view,
    timetable,
    view_scripts,
)
from attncourse_book.glossary_links import Entry
from docutils import nodes
from docutils.core import publish_doctree
from PIL import Image
from sphinx.errors import ExtensionError

ROOT = Path(__file__).parents[2]


def test_no_address_unless_one_is_set():
    assert address.find_address({}) is None
    assert address.find_address({"BOOK_REPOSITORY": ""}) is None
    options = address.theme_options(None)
    assert not options["repository_url"] and not options["launch_buttons"]
    assert not any(key.startswith("use_") for key in options)


@pytest.mark.parametrize(
    ("environment", "repository", "branch"),
    [
        ({"BOOK_REPOSITORY": "someone/fork"}, "someone/fork", "main"),
        ({"GITHUB_REPOSITORY": "someone/fork"}, "someone/fork", "main"),
        ({"GITHUB_REPOSITORY": "a/b", "BOOK_REPOSITORY": "someone/fork"}, "someone/fork", "main"),
        ({"BOOK_REPOSITORY": "a.b/c_d-e", "BOOK_BRANCH": "autumn"}, "a.b/c_d-e", "autumn"),
    ],
)
def test_a_fork_sets_its_address_once(environment, repository, branch):
    found = address.find_address(environment)
    assert (found.repository, found.branch) == (repository, branch)
    options = address.theme_options(found)
    assert options["repository_url"] == f"https://github.com/{repository}"
    assert options["repository_branch"] == branch
    colab = found.colab("chapters/02_soft_attention")
    assert colab == (
        f"https://colab.research.google.com/github/{repository}/blob/colab/chapters/02_soft_attention.ipynb"
    )


@pytest.mark.parametrize(
    "wrong", ["fork", "https://github.com/someone/fork", "a/b/c", "some one/fork", 'a/b"><script>']
)
def test_a_wrong_address_is_named(wrong):
    """Half an address would make a book full of dead links."""
    with pytest.raises(ExtensionError, match="owner/name"):
        address.find_address({"BOOK_REPOSITORY": wrong})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("https://ada.github.io/course", "https://ada.github.io/course/"),
        ("https://ada.example.org/", "https://ada.example.org/"),
    ],
)
def test_a_page_has_one_address_if_the_site_s_is_known(given, expected):
    assert address.find_site({"BOOK_URL": given}) == expected


@pytest.mark.parametrize("wrong", ["ada.github.io", "ftp://ada", 'https://ada.org/"><script>'])
def test_a_wrong_site_is_named(wrong):
    """A canonical link that leads nowhere takes the book out of every search."""
    with pytest.raises(ExtensionError, match="BOOK_URL"):
        address.find_site({"BOOK_URL": wrong})


def page_context(monkeypatch, page, environment):
    """What the launch handler makes of one page."""
    found = address.Address(**environment) if environment else None
    monkeypatch.setattr(address, "find_address", lambda: found)
    source = "ipynb" if page.startswith("chapters/") else "md"
    env = SimpleNamespace(doc2path=lambda name: f"{name}.{source}", found_docs={address.HOW_TO_RUN})
    context = {
        "header_buttons": [{"icon": "fab fa-github"}],
        "pathto": lambda name: f"../{name}.html",
        "body": '<p>No kernel. <span class="attn-launch">Open it</span></p>',
    }
    address._add_launch(SimpleNamespace(env=env), page, "page.html", context, object())
    return context


def test_a_chapter_of_a_fork_leads_to_its_own_colab(monkeypatch):
    fork = {"repository": "someone/fork", "branch": "main"}
    context = page_context(monkeypatch, "chapters/01_seq2seq", fork)
    url = "https://colab.research.google.com/github/someone/fork/blob/colab/chapters/01_seq2seq.ipynb"
    assert context["header_buttons"][0]["url"] == url
    assert context["body"] == f'<p>No kernel. <a class="attn-launch" href="{url}">Open it</a></p>'
    assert "url" not in page_context(monkeypatch, "book/notation", fork)["header_buttons"][0]


def test_without_an_address_a_chapter_leads_to_how_to_run(monkeypatch):
    context = page_context(monkeypatch, "chapters/01_seq2seq", None)
    assert len(context["header_buttons"]) == 1, "a launch button that leads nowhere"
    assert 'href="../book/how_to_run.html"' in context["body"]
    assert "span" not in context["body"]


def test_packed_scripts_unpack_to_the_same():
    scripts = {"core.js": 'const a = "é</script>";'}
    packed = mathematics.pack(scripts)
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == scripts
    assert mathematics.pack(scripts) == packed, "the same input must give the same bytes"


def test_mathjax_is_written_whole(tmp_path):
    written = mathematics.write_mathjax(tmp_path)
    assert written == sorted(set(written), key=written.index)
    assert {file for file in tmp_path.rglob("*") if file.is_file()} == set(written)
    assert "@PACKED@" not in (tmp_path / "mathjax.js").read_text()


def test_icons_that_no_page_shows_are_cut():
    style = (
        'a{b:c}.fa-bars:before,.fa-navicon:before{content:"\\f0c9"}.fa-ghost:before{content:"\\f6e2"}'
        ':root{--pst-icon-bell:"\uf0f3"}'
        '@font-face{src:url(x.woff2) format("woff2"),url(x.ttf) format("truetype")}'
    )
    cut, points = icons.cut_style(style, {"fa-navicon"})
    assert points == {0xF0C9, 0xF0F3}
    assert "fa-ghost" not in cut and "fa-bars" in cut
    assert "a{b:c}" in cut and "x.woff2" not in cut and "x.ttf" in cut


def test_a_figure_keeps_its_pixels_and_its_words(tmp_path):
    picture = Image.linear_gradient("L").convert("RGB")
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    stored = base64.b64encode(buffer.getvalue()).decode()
    page = f'<img alt="a" src="data:image/png;base64,{stored}">'
    body = figures.store_figures(page, tmp_path, "../_images")
    (file,) = tmp_path.iterdir()
    assert body == f'<img alt="a" src="../_images/{file.name}">'
    assert Image.open(file).convert("RGB").tobytes() == picture.tobytes()


def test_a_page_keeps_the_last_of_several_equal_scripts():
    """The first copy finds the views before it only: to keep that one would leave the later views dead."""
    one, other = (f"<script>(() => {{\nstart('{kind}');\n}})();</script>" for kind in ("heads", "patches"))
    page = "<p>a</p>{}<p>b</p>{}<p>c</p>{}<script>let x;</script>"
    assert view_scripts.keep_last_scripts(page.format(one, other, one)) == page.format("", other, one)


def test_the_map_knows_every_chapter_and_part():
    chapters = [chapter for group in chapter_map.CHAPTERS.values() for chapter in group]
    assert [chapter.number for chapter in chapters] == [f"{i:02}" for i in range(12)]
    assert all(set(chapter.changes) <= set(chapter_map.PARTS) for chapter in chapters)
    drawing = chapter_map.draw(chapter_map.WIDE, {"00_what_is_attention": "a.html?x=1&y=2"})
    assert drawing.count("<a ") == 1 and 'href="a.html?x=1&amp;y=2"' in drawing
    assert drawing.count('class="coming"') == 11
    words = chapter_map.in_words({"00_what_is_attention": "a.html"})
    assert "00 What attention is: all parts." in words
    assert "02 Soft attention (coming): query, key, value, score." in words


ENTRIES = [
    Entry("attention", "term-attention", "weighing positions"),
    Entry("attention weight", "term-attention-weight", "a share"),
    Entry("query", "term-query", "what is looked for"),
    Entry("BLEU", "term-BLEU", "a measure"),
    Entry("self-attention", "term-self-attention", "one sequence"),
]


def linked(text: str) -> tuple[list[str], nodes.document]:
    """The terms that a small page links, and the page."""
    doctree = publish_doctree(text, settings_overrides={"doctitle_xform": False})
    return glossary_links.link_terms(doctree, ENTRIES, "../book/glossary.html"), doctree


def test_the_first_mention_of_a_term_is_linked():
    """Every mention linked is a page of links; a later one only is a riddle."""
    terms, doctree = linked("Two *queries* ask. A query asks, and Attention weights answer.")
    assert terms == ["query", "attention weight"]
    links = list(doctree.findall(nodes.reference))
    assert [link.astext() for link in links] == ["queries", "Attention weights"]
    assert links[0]["refuri"] == "../book/glossary.html#term-query"
    assert links[0]["reftitle"] == "what is looked for"
    assert doctree.astext() == "Two queries ask. A query asks, and Attention weights answer."


def test_a_term_over_the_end_of_a_line_is_one_term():
    assert linked("all attention\nweights")[0] == ["attention weight"]


@pytest.mark.parametrize(
    "text",
    [
        "A query\n=======\n\nText.",
        "Code: ``query``.",
        "A formula: :math:`query`.",
        "A `query <https://x.org>`_ that leads elsewhere.",
        "::\n\n    query",
        ".. figure:: a.png\n\n   A query.",
        "=====  =====\nquery  query\n=====  =====",
        "One bleu, two requery, a query-key pair.",
    ],
    ids=["heading", "code", "formula", "link", "block", "figure", "table", "other words"],
)
def test_only_running_text_is_linked(text):
    assert linked(text)[0] == []


def test_a_longer_term_goes_before_a_shorter_one_in_it():
    terms, _ = linked("Self-attention and BLEU. Then attention alone.")
    assert terms == ["self-attention", "BLEU", "attention"]


def test_entries_of_the_glossary_are_read():
    page = nodes.document("", "")
    english, chinese = nodes.term("", "query", ids=["term-query"]), nodes.term("", "查询", ids=["term-1"])
    meaning = nodes.paragraph("", "", nodes.Text("What is\nlooked for. "), nodes.reference("", "Chapter 00"))
    item = nodes.definition_list_item("", english, chinese, nodes.definition("", meaning))
    page += nodes.definition_list("", item)
    assert glossary_links.read_entries(page) == [Entry("query", "term-query", "What is looked for.")]


def notebook(tmp_path, *texts, outputs=()):
    """A chapter with these cells of prose, and one cell of code with these outputs."""
    cells = [{"cell_type": "markdown", "source": text} for text in texts]
    cells.append({"cell_type": "code", "source": "", "outputs": [{"data": data} for data in outputs]})
    path = tmp_path / "07_small.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_a_view_is_taken_from_what_a_chapter_stored(tmp_path):
    path = notebook(tmp_path, outputs=[
        {"text/plain": ["AttentionView(1 head)"], "text/html": ["<div>", "one</div>"]},
        {"text/plain": "AttentionView(2 heads)", "text/html": "<div>two</div>"},
        {"text/plain": "HeadsView(8 heads)", "text/html": "<div>three</div>"},
    ])
    assert stored_view.stored_view(path, "AttentionView") == "<div>one</div>"
    assert stored_view.stored_view(path, "AttentionView", 2) == "<div>two</div>"
    with pytest.raises(LookupError, match="stores 2 outputs.*number 3.*AttentionView, HeadsView"):
        stored_view.stored_view(path, "AttentionView", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("about 45 minutes", 2700),
        ("about an hour", 3600),
        ("about an hour and a half", 5400),
        ("about a minute and a half on one CPU core; on a GPU: not measured", 90),
        ("about one and a half minutes on one CPU core", 90),
        ("about half a minute", 30),
        ("CPU, one thread: about 10 seconds. GPU: 2 seconds", 10),
    ],
)
def test_a_time_in_words_is_a_number(text, expected):
    assert timetable.seconds(text) == expected


def test_times_are_written_for_a_table():
    texts = [timetable.in_words(time) for time in (20, 60, 90, 2700, 3600, 5400)]
    spaced = [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts]
    assert spaced == ["20 s", "1 min", "1.5 min", "45 min", "1 h", "1 h 30 min"]


OPENING = """# 07 · Small

| | |
| --- | --- |
| Before this | [chapter 00](00_what_is_attention.ipynb), [02](02_soft_attention.ipynb) |
| Reading time | about 45 minutes |
| Running time | about a minute |"""
TRY_IT = """## Try it

**A minute each**

1. One?
2. Two?

<details><summary>Answer</summary>

1. Yes. **Ten minutes** is no heading here.

</details>

**Ten minutes.** Change a line.

**An hour.** Build.

## Summary

**A minute.** No exercise."""


FIRST_SCREEN = """# 07 · Small

What if it could look back?"""
FOLD = """<details><summary>What you will learn</summary>

- **Before this:** [chapter 00](00_what_is_attention.ipynb), [02](02_soft_attention.ipynb)
- **Reading time:** about 45 minutes
- **Running time:** about a minute

</details>

## The problem

- **Reading time:** of something else"""


@pytest.mark.parametrize("opening", [(OPENING,), (FIRST_SCREEN, FOLD)], ids=["table", "list"])
def test_a_chapter_says_what_it_asks(tmp_path, opening):
    effort = timetable.read_effort(notebook(tmp_path, *opening, TRY_IT))
    assert effort == timetable.Effort(("00", "02"), 2700, 60, (2, 1, 1))


@pytest.mark.parametrize("change", [("about 45 minutes", "not long"), ("Reading time", "To read")])
def test_a_chapter_without_a_time_is_named(tmp_path, change):
    """A plan that leaves a chapter out of its sum looks right and is wrong."""
    with pytest.raises(ValueError, match="07_small.ipynb: what opens the chapter"):
        timetable.read_effort(notebook(tmp_path, OPENING.replace(*change)))


def test_the_plans_of_the_instructor_hold_every_chapter_in_an_order_that_can_be_read():
    """A chapter taught before the one it builds on."""
    page = (ROOT / "book" / "instructors.md").read_text(encoding="utf8")
    plans = re.findall(r"```\{course-plan\}\n(.*?)```", page, flags=re.DOTALL)
    known = timetable.efforts(ROOT / "chapters")
    every = [chapter.number for group in chapter_map.CHAPTERS.values() for chapter in group]
    assert [len(timetable.read_plan(plan.splitlines())) for plan in plans] == [6, 12]
    for plan in plans:
        order = [number for chapters, *_ in timetable.read_plan(plan.splitlines()) for number in chapters]
        assert sorted(order) == every
        for number, effort in known.items():
            late = [before for before in effort.before if order.index(before) > order.index(number)]
            assert not late, f"chapter {number} comes before {late}"
    # The page says that these two may be left out.
    optional = {"04", "05"}
    others = [effort for number, effort in known.items() if number not in optional]
    assert not optional & {before for effort in others for before in effort.before}


def test_long_signatures_and_references_are_lists_of_the_right_kind():
    line = '<dd><em class="sig-param">a</em>,</dd>\n'
    body = (f'<dt>f(<dl>\n{line}{line}</dl>)</dt>'
            '<dl class="simple"><dt>x</dt><dd>y</dd></dl><div role="doc-biblioentry">')
    mended = accessible.mend(body)
    assert mended.count('<span class="sig-line">') == 2 and '<dl class="simple">' in mended
    assert mended.count("<dd>") == mended.count("<dl") == 1 and "biblioentry" not in mended
    fold = '<details><summary><span class="toctree-toggle" role="presentation"></span></summary>'
    assert '<summary aria-label="' in accessible.name_folds(fold)


def test_docstrings_are_prose():
    """Shapes and formulas are not markup; code, sections and examples are."""
    lines = docstrings.as_markup([
        "Map (*batch, keys) to h_j, |x| and s_ here, `*code*` there.",
        "",
        "    c_i = sum_j * h_j",
        "    d_",
        "",
        "Args:",
        "    q: (*batch, d_)",
        "",
        "    >>> f(*x_)",
        "    3 * x_",
    ])
    assert lines[0] == r"Map (\*batch, keys) to h_j, \|x\| and s\_ here, `*code*` there."
    assert lines[2:6] == ["::", "", "    c_i = sum_j * h_j", "    d_"]
    assert lines[8] == r"    q: (\*batch, d\_)"
    assert lines[-2:] == ["    >>> f(*x_)", "    3 * x_"]


def test_signatures_use_short_names():
    long = "(x: jaxtyping.Float[torch.Tensor, 'b'])"
    short = docstrings._shorten(None, "function", "f", None, None, long, None)
    assert short == ("(x: Float[Tensor, 'b'])", None)


def test_a_description_is_the_first_sentence_of_prose():
    source = "Title\n=====\n\nShort.\n\n" + "word " * 80
    doctree = publish_doctree(source, settings_overrides={"doctitle_xform": False})
    text = metadata.describe(doctree)
    assert text.startswith("word") and len(text) <= metadata.LONGEST + 2 and text.endswith("…")
    assert metadata.describe(publish_doctree("")) == ""
    assert 'content="a &quot;b&quot;"' in metadata.card("t", 'a "b"', "s")
    assert "og:url" not in metadata.card("t", "d", "s")
    assert 'property="og:url" content="https://x.org/a.html"' in metadata.card("t", "d", "s", "https://x.org/a.html")
