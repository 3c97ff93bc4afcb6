"""Figures: alternative text always, the same bytes every time, and errors where the mistake is."""

import base64
import re
import warnings

import matplotlib.pyplot as plt
import pytest
import torch

from attncourse.viewer import (
    by_length,
    curves,
    heatmap,
    position_similarity,
    position_table,
    show,
    show_beside,
)
from attncourse.viewer.plots.figure import figure_html
from attncourse.viewer.plots.plane import plane

WEIGHTS = [[0.7, 0.2, 0.1], [0.0, 0.0, 0.0]]
RESULTS = {
    "fixed context": {"3-6": [70, 72, 71], "7-10": [20, 22, 21]},
    "additive attention": {"3-6": [95, 94, 96], "7-10": [90, 89, 91]},
}


def map_of_weights():
    return heatmap(WEIGHTS, ["le", "chat"], ["the", "black", "cat"], title="Le reads the")


def lines():
    return curves({"fixed context": ([0, 1, 2], [3, 2, 1]), "width 8": ([0, 1, 2], [3, 1, 0])},
                  title="It learns", y_axis="loss (nats)", smooth=3)


def lengths():
    return by_length(RESULTS, title="Attention looks back", metric="BLEU", trained_to="3-6")


def points():
    keys = torch.eye(2)
    return plane(torch.ones(2), keys, torch.tensor([0.5, 0.5]), keys.mean(0), labels=["a", "b"], title="Even")


def table_of_positions():
    return position_table(torch.eye(3, 4) - 0.5, title="Each position has a pattern")


def alike():
    return position_similarity(torch.eye(3, 4), title="Each is like itself")


@pytest.mark.parametrize("draw", [map_of_weights, lines, lengths, points, table_of_positions, alike])
def test_drawn_twice_the_bytes_are_equal(draw):
    """A date or a version in the file would change every stored notebook."""
    first, second = figure_html(draw(), "alt"), figure_html(draw(), "alt")
    assert first == second
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", first)[1])
    assert picture.startswith(b"\x89PNG") and b"Software" not in picture and b"matplotlib" not in picture
    assert len(first) < 250_000


@pytest.mark.parametrize("draw", [map_of_weights, lines, lengths, points, table_of_positions, alike])
def test_the_title_is_the_sentence_that_was_given(draw):
    assert draw().get_suptitle()


def test_show_carries_the_alternative_text_everywhere(published):
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    show(figure, alt='A line rises from 1 to 2, "steadily" <fast>')
    (data,) = published
    assert data["text/plain"] == 'A line rises from 1 to 2, "steadily" <fast>'
    assert 'alt="A line rises from 1 to 2, &quot;steadily&quot; &lt;fast&gt;"' in data["text/html"]
    assert data["text/html"].startswith('<figure class="attn-figure"')
    assert "max-width: 100%" in data["text/html"]
    assert not plt.fignum_exists(figure.number), "an open figure is shown twice by the notebook"


def test_plain_python_prints_the_alternative_text(capsys):
    show(map_of_weights(), alt="Le reads the.")
    assert capsys.readouterr().out == "Le reads the.\n"


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_a_figure_without_alternative_text_is_refused(alt):
    with pytest.raises(ValueError, match="alt is"):
        show(map_of_weights(), alt=alt)


def test_what_is_not_a_figure_is_refused():
    with pytest.raises(TypeError, match="matplotlib Figure, given list"):
        show([1], alt="A list")


def test_as_many_ticks_as_tokens_and_no_mathematics_in_them():
    tokens = ["$x$", "a^b", "我", " "]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = heatmap(torch.eye(4), tokens, tokens, title="Each reads itself")
        axes = figure.axes[0]
        figure_html(figure, "alt")
    assert len(axes.get_xticklabels()) == len(axes.get_yticklabels()) == 4
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["$x$", "a^b"]


def test_gold_links_are_drawn_where_they_are():
    gold = (frozenset({(2, 1)}), frozenset({(2, 1), (0, 0)}))
    axes = heatmap(WEIGHTS, ["le", "chat"], ["the", "black", "cat"], title="Gold", gold=gold).axes[0]
    box = axes.patches[0].get_bbox()
    assert ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) == pytest.approx((2, 1)), "(key, query) is (x, y)"
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines] == [(0, 0)]


def test_gold_outside_the_sentence_is_named():
    with pytest.raises(ValueError, match="key 5 with query 0, but there are 3 keys and 2 queries"):
        heatmap(WEIGHTS, ["a", "b"], ["x", "y", "z"], title="t", gold=({(5, 0)}, {(5, 0)}))


def test_groups_that_are_not_lengths_are_called_what_they_are():
    """How far words move, under an axis that says "source length", would be read wrongly."""
    figure = by_length(RESULTS, title="t", metric="BLEU", x_axis="places moved")
    assert figure.axes[0].get_xlabel() == "places moved"
    assert lengths().axes[0].get_xlabel() == "source length (words)"


def test_lines_carry_their_names():
    texts = {text.get_text() for text in lengths().axes[0].texts}
    assert {"fixed context", "additive attention"} <= texts
    assert lengths().axes[0].get_legend() is None


def test_names_at_the_end_do_not_overlap():
    equal = {name: ([0, 1], [1, 0]) for name in ("one", "two", "three")}
    figure = curves(equal, title="Equal", y_axis="loss")
    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    low, high = figure.axes[0].get_ylim()
    assert all(b - a > 0.05 * (high - low) for a, b in zip(heights, heights[1:], strict=False))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: heatmap(torch.ones(2, 2, 2) / 2, ["a", "b"], ["x", "y"], title="t"), "2 heads"),
    (lambda: curves({}, title="t", y_axis="y"), "series is empty"),
    (lambda: curves({"a": ([1, 2], [1])}, title="t", y_axis="y"), r"series\['a'\] has 2 x and 1 y"),
    (lambda: by_length({}, title="t", metric="m"), "results is empty"),
    (lambda: by_length({"a": {"1-2": [1]}, "b": {"3-4": [1]}}, title="t", metric="m"), r"results\['b'\]"),
    (lambda: by_length(RESULTS, title="t", metric="m", trained_to="9-9"), "trained_to is '9-9'"),
])
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_figures_beside_each_other_keep_their_words_and_wrap(published):
    """Side by side in one row of fixed width they would be too small to read on a phone."""
    show_beside((lines(), "It learns."), (points(), "Two keys."))
    [content] = published
    assert content["text/plain"] == "It learns.\nTwo keys."
    assert content["text/html"].count("<img ") == 2 and "flex-wrap: wrap" in content["text/html"]
    assert 'alt="It learns."' in content["text/html"] and 'alt="Two keys."' in content["text/html"]


@pytest.mark.parametrize("panels", [(), (1,), ("ab", 2)])
def test_figures_beside_each_other_come_with_their_words(panels):
    with pytest.raises(TypeError, match="panels must be pairs"):
        show_beside(*panels)


def test_positions_are_rows_and_their_likeness_is_their_dot_product():
    """Transposed, the waves of the sinusoids would run along the sentence's axis."""
    table = torch.tensor([[1.0, -2.0, 0.0], [0.0, 3.0, 1.0]], requires_grad=True)
    for draw, expected, across in [(position_table, table, "place in the vector"),
                                   (position_similarity, table @ table.T, "position")]:
        axes = draw(table, title="Two positions").axes[0]
        assert torch.equal(torch.tensor(axes.images[0].get_array()), expected.double())
        assert (axes.get_xlabel(), axes.get_ylabel()) == (across, "position")


@pytest.mark.parametrize(("table", "message"), [
    ([1.0, 2.0], r"table has shape \(2,\); it must be \(positions, width\)"),
    ([[1.0, float("inf")]], "table holds inf: every number must be finite"),
])
def test_a_table_of_positions_is_one_of_finite_rows(table, message):
    for draw in (position_table, position_similarity):
        with pytest.raises(ValueError, match=message):
            draw(table, title="Wrong")
