"""The drawing of chapter 09: patches in their order, one position for each token, nothing colliding."""


import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from attncourse.viewer.drawings.vision_transformer import COLUMNS, PIXELS, vision_transformer


@pytest.fixture(scope="module")
def drawn():
    """The figure, and every text with its box in pixels."""
    figure = vision_transformer()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = figure.axes[0].texts
    return figure, [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in texts]


def box(drawn, start: str):
    return next(box for text, box in drawn[1] if text.startswith(start))


def test_it_rises_from_the_image_to_the_answer(drawn):
    upward = ["linear projection", "class", "$p_0$", "Transformer encoder", "$y$", "head"]
    heights = [box(drawn, name).y0 for name in upward]
    assert heights == sorted(heights)


def test_every_token_has_a_position_and_the_class_token_comes_first(drawn):
    """A position too few leaves the class token without one, and the count of parameters wrong."""
    texts = [text for text, _ in drawn[1]]
    assert [text for text in texts if text.startswith("$p_")] == [f"$p_{i}$" for i in range(len(COLUMNS) + 1)]
    assert sum(text.endswith("E$") and text.startswith("$x_") for text in texts) == len(COLUMNS)
    assert sum(text == "+" for text in texts) == len(COLUMNS) + 1
    assert box(drawn, "class").x1 < box(drawn, "$x_1E$").x0


def test_the_patches_in_a_row_are_those_of_the_image(drawn):
    """Cut by columns, the row would spell another image."""
    pixels = [p for p in drawn[0].axes[0].patches if isinstance(p, Rectangle) and p.get_width() < 0.4]
    image, row = pixels[:36], pixels[36:]

    def ink(patch):
        return "#" if patch.get_facecolor()[0] < 0.5 else "."

    assert ["".join(ink(p) for p in image[i : i + 6]) for i in range(0, 36, 6)] == PIXELS
    row = sorted(row, key=lambda p: p.get_x())
    for number in range(9):
        first, column = 2 * (number // 3), 2 * (number % 3)
        own = sorted(row[4 * number : 4 * number + 4], key=lambda p: (-p.get_y(), p.get_x()))
        expected = PIXELS[first][column : column + 2] + PIXELS[first + 1][column : column + 2]
        assert "".join(map(ink, own)) == expected, f"patch {number + 1}"


def test_each_step_has_its_number_and_its_note(drawn):
    notes = {"1": "cut", "2": "map", "3": "put", "4": "encode", "5": "answer"}
    drawing = []
    for number, start in notes.items():
        above, beside = sorted((b for text, b in drawn[1] if text == number), key=lambda b: -b.y0)
        note = box(drawn, start)
        assert beside.x1 < note.x0 and beside.y0 < note.y1 and beside.y1 > note.y0
        drawing.append(above.y0)
    assert drawing == sorted(drawing), "the numbers must rise with the page"
