"""The Sphinx extension's functions, one by one: addresses, mathematics, icons, the map, docstrings."""

import base64
import gzip
import io
import json
from types import SimpleNamespace

import pytest
from attncourse_book import address, chapter_map, docstrings, figures, icons, mathematics, metadata
from docutils.core import publish_doctree
from PIL import Image
from sphinx.errors import ExtensionError


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
