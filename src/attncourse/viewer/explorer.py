"""Explorers for a live kernel: the reader's own input goes through the package itself.

They need Jupyter or Colab. In a page without a kernel a moved slider beside a number that stays would
mislead, so each explorer also carries one sentence of HTML, which is all that such a page shows.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from html import escape

import torch
from torch import Tensor

from attncourse import attention
from attncourse.viewer.attention_view import AttentionView
from attncourse.viewer.document_view import DocumentView
from attncourse.viewer.heads_view import HeadMaps, HeadsView
from attncourse.viewer.image_view import ImageAttentionView
from attncourse.viewer.plots import figure_html, plane
from attncourse.viewer.publish import publish

STATIC = (
    '<p class="attn-live">This explorer needs a running kernel: '
    '<span class="attn-launch">open the chapter in Colab or run it locally</span>.</p>'
)


def translation_explorer(
    translate: Callable[[str], tuple[Sequence[str], Sequence[str], Tensor]],
    examples: Sequence[str],
    *,
    known: Container[str] | None = None,
) -> None:
    """Type a sentence, read its translation, see where each word of it looked.

    Args:
        translate: text -> (queries, keys, weights), as `AttentionView` takes them: the words written, the
            words read, and the weights (written, read). What it raises as ValueError is shown to the reader.
        examples: sentences to choose from; the first is shown.
        known: the words the model has met; a word read that is not among them is named.
    """
    widgets = _widgets()
    example, sentence = _sentence(widgets, examples)
    output = widgets.Output()

    def answer(_=None):
        output.outputs = (_shown(_translation(translate, sentence.value, known)),)

    sentence.observe(answer, "value")
    answer()
    _publish(widgets.VBox([example, sentence, output]))


def window_explorer(
    translate: Callable[[str, str, int], tuple[Sequence[str], Sequence[str], Tensor]],
    examples: Sequence[str],
    *,
    systems: Sequence[str],
    half_width: int,
    widest: int,
    known: Container[str] | None = None,
) -> None:
    """The same with local attention: choose the system and the half-width D too, and see the window move.

    Args:
        translate: (text, system, D) -> (queries, keys, weights), as for `translation_explorer`; here a row of
            weights may sum to less than 1.
        examples: sentences to choose from; the first is shown.
        systems: names to choose from; the first is shown.
        half_width: D to begin with.
        widest: the largest D on offer.
        known: the words the model has met.
    """
    if not systems:
        raise ValueError("systems is empty: give at least one to choose from")
    if not 1 <= half_width <= widest:
        raise ValueError(f"half_width is {half_width}; it must lie between 1 and widest, {widest}")
    widgets = _widgets()
    example, sentence = _sentence(widgets, examples)
    system = widgets.Dropdown(options=list(systems), description="Attention")
    width = widgets.IntSlider(value=half_width, min=1, max=widest, description="D", continuous_update=False)
    output = widgets.Output()

    def answer(_=None):
        def local(text):
            return translate(text, system.value, width.value)

        output.outputs = (_shown(_translation(local, sentence.value, known, partial=True)),)

    for control in (sentence, system, width):
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([example, sentence, system, width, output]))


def document_explorer(
    read: Callable[[str, str], DocumentView],
    examples: Mapping[str, str],
    *,
    systems: Sequence[str],
) -> None:
    """Type a document, one sentence a line, and see which sentences and words it was read by.

    Args:
        read: (text, system) -> the view of that document. What it raises as ValueError is shown to the
            reader.
        examples: {name: text} to choose from; the first is shown.
        systems: names to choose from; the first is shown.
    """
    if not examples:
        raise ValueError("examples is empty: give at least one document to begin with")
    if not systems:
        raise ValueError("systems is empty: give at least one to choose from")
    widgets = _widgets()
    wide = widgets.Layout(width="min(100%, 42em)")
    example = widgets.Dropdown(options=list(examples.items()), description="Examples", layout=wide)
    document = widgets.Textarea(value=example.value, description="Document", continuous_update=False, rows=8,
                                layout=wide)
    widgets.dlink((example, "value"), (document, "value"))
    system = widgets.Dropdown(options=list(systems), description="System")
    output = widgets.Output()

    def answer(_=None):
        output.outputs = (_shown(_document(read, document.value, system.value)),)

    for control in (document, system):
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([example, document, system, output]))


def _document(read, text: str, system: str) -> str:
    """The HTML that answers one typed document."""
    if not text.strip():
        return "<p>Type a document, one sentence a line, and click outside the box.</p>"
    try:
        return read(text, system)._repr_html_()
    except ValueError as error:
        return f"<p>{escape(str(error))}</p>"


def pretrained_explorer(
    heads_of: Callable[[str], tuple[Sequence[str], Tensor]],
    examples: Sequence[str],
    *,
    names: Mapping[tuple[int, int], str] | None = None,
) -> None:
    """Type a sentence, and see what every head of an encoder reads in it.

    Args:
        heads_of: text -> (tokens, weights), the weights (layers, heads, tokens, tokens). What it raises as
            ValueError, or as ImportError where the encoder is not installed, is shown to the reader.
        examples: sentences to choose from; the first is shown.
        names: what some heads do, as `HeadMaps` takes it.
    """
    widgets = _widgets()
    example, sentence = _sentence(widgets, examples)
    output = widgets.Output()

    def answer(_=None):
        output.outputs = (_shown(_heads(heads_of, sentence.value, names or {})),)

    sentence.observe(answer, "value")
    answer()
    _publish(widgets.VBox([example, sentence, output]))


def _heads(heads_of, text: str, names: Mapping[tuple[int, int], str]) -> str:
    """The HTML that answers one typed sentence."""
    if not text.strip():
        return "<p>Type a sentence and press Enter.</p>"
    try:
        tokens, weights = heads_of(text)
        view = HeadsView({"inside the sentence": HeadMaps(weights, tokens, tokens, names)}, title=text)
    except (ImportError, ValueError) as error:
        return f"<p>{escape(str(error))}</p>"
    return view._repr_html_()


def transformer_explorer(
    translate: Callable[[str], tuple[Sequence[str], Sequence[str], Mapping[str, HeadMaps]]],
    examples: Sequence[str],
    *,
    known: Container[str] | None = None,
) -> None:
    """Type a sentence and watch one head of a Transformer: choose whom it relates, its layer and its number.

    Args:
        translate: text -> the words written, the words read, and every head's weights by relation, as
            `HeadsView` takes them, with as many layers and heads for each. What it raises as ValueError is
            shown to the reader.
        examples: sentences to choose from; the first is shown.
        known: the words the model has met; a word read that is not among them is named.
    """
    widgets = _widgets()
    example, sentence = _sentence(widgets, examples)
    maps = translate(examples[0])[2]
    layers, heads = next(iter(maps.values())).weights.shape[:2]
    relation = widgets.Dropdown(options=list(maps), description="Attention")
    layer = widgets.Dropdown(options=list(range(1, layers + 1)), description="Layer")
    head = widgets.Dropdown(options=list(range(1, heads + 1)), description="Head")
    output = widgets.Output()

    def answer(_=None):
        chosen = (relation.value, layer.value - 1, head.value - 1)
        output.outputs = (_shown(_one_head(translate, sentence.value, known, *chosen)),)

    for control in (sentence, relation, layer, head):
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([example, sentence, relation, layer, head, output]))


def _one_head(
    translate, text: str, known: Container[str] | None, relation: str, layer: int, head: int
) -> str:
    """The HTML that answers one typed sentence with the weights of one head."""
    if not text.strip():
        return "<p>Type a sentence and press Enter.</p>"
    try:
        written, read, maps = translate(text)
    except ValueError as error:
        return f"<p>{escape(str(error))}</p>"
    weights, queries, keys, *_ = maps[relation]
    title = f"{relation}, layer {layer + 1}, head {head + 1}"
    view = AttentionView(weights[layer, head], queries, keys, title=title)
    answer = f"<p>{escape(' '.join(written) or 'The model wrote nothing.')}</p>"
    return _never_met(read, known) + answer + view._repr_html_()


def _sentence(widgets, examples: Sequence[str]) -> tuple:
    """A list of examples, and a line to type in which the chosen one appears."""
    if not examples:
        raise ValueError("examples is empty: give at least one sentence to begin with")
    wide = widgets.Layout(width="min(100%, 42em)")
    example = widgets.Dropdown(options=list(examples), description="Examples", layout=wide)
    sentence = widgets.Text(value=examples[0], description="Sentence", continuous_update=False, layout=wide)
    widgets.dlink((example, "value"), (sentence, "value"))
    return example, sentence


def _translation(translate, text: str, known: Container[str] | None, *, partial: bool = False) -> str:
    """The HTML that answers one typed sentence."""
    if not text.strip():
        return "<p>Type a sentence and press Enter.</p>"
    try:
        queries, keys, weights = translate(text)
    except ValueError as error:
        return f"<p>{escape(str(error))}</p>"
    if not queries:
        return "<p>The model wrote nothing.</p>"
    view = AttentionView(weights, queries, keys, title=" ".join(queries), partial=partial)
    return _never_met(keys, known) + view._repr_html_()


def _never_met(words: Sequence[str], known: Container[str] | None) -> str:
    """A note that names the words a model does not know; nothing if it knows them all."""
    unknown = [] if known is None else [word for word in dict.fromkeys(words) if word not in known]
    return f"<p>Words the model has never met: <b>{escape(', '.join(unknown))}</b>.</p>" if unknown else ""


def score_explorer() -> None:
    """Choose the score and the temperature, move the query: `attncourse.attention` computes the weights."""
    widgets = _widgets()
    keys = torch.tensor([[2.0, 0.5], [1.0, 1.6], [-1.5, 1.0], [-0.5, -1.8]])
    labels = ["k1", "k2", "k3", "k4"]
    scores = _scores(len(keys))
    score = widgets.Dropdown(options=list(scores), value="ScaledDotScore", description="score")
    temperature = widgets.FloatLogSlider(value=1, base=2, min=-3, max=3, step=0.1, description="temperature")
    x = widgets.FloatSlider(value=1.5, min=-2.5, max=2.5, step=0.1, description="query x")
    y = widgets.FloatSlider(value=1.0, min=-2.5, max=2.5, step=0.1, description="query y")
    output = widgets.Output()

    def answer(_=None):
        query = torch.tensor([[x.value, y.value]])
        module, t = scores[score.value], temperature.value
        with torch.no_grad():
            context, weights = attention.attend(query, keys, keys, score=lambda q, k: module(q, k) / t)
        title = f"{score.value} at temperature {t:.2f}"
        alt = f"{title}: " + ", ".join(
            f"{label} {weight:.2f}" for label, weight in zip(labels, weights[0].tolist(), strict=True)
        )
        figure = plane(query[0], keys, weights[0], context[0], labels=labels, title=title)
        output.outputs = (_shown(figure_html(figure, alt)),)

    for control in (score, temperature, x, y):
        control.style.description_width = "6.5em"
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([score, temperature, x, y, output]))


def scene_explorer(
    look: Callable[[dict[int, str], int, str], tuple[Tensor, Sequence[str], Tensor | None, str]],
    things: Sequence[str],
    systems: Sequence[str],
    *,
    start: Mapping[int, str],
) -> None:
    """Put things into a picture, have it captioned, and see where each word looked.

    The picture has nine places, three by three, and each may hold one of the things.

    Args:
        look: (the things by place, 0 to 8; a number that chooses between specimens; the system's name) ->
            image, words and weights as `ImageAttentionView` takes them, and a sentence to show above. Weights
            None: the system does not attend. What it raises as ValueError is shown to the reader.
        things: what a place may hold.
        systems: names to choose from.
        start: the things, by place, of the first picture.
    """
    if not systems:
        raise ValueError("systems is empty: give at least one")
    for place, thing in start.items():
        if not (place in range(9) and thing in things):
            raise ValueError(f"start puts {thing!r} at {place}: places are 0 to 8, things are {list(things)}")
    widgets = _widgets()
    narrow = widgets.Layout(width="6.5em")
    places = [
        widgets.Dropdown(options=[("(empty)", ""), *[(thing, thing) for thing in things]],
                         value=start.get(place, ""), layout=narrow)
        for place in range(9)
    ]
    grid = widgets.GridBox(places, layout=widgets.Layout(grid_template_columns="repeat(3, 7em)"))
    specimen = widgets.IntSlider(value=0, min=0, max=30, description="specimen")
    system = widgets.Dropdown(options=list(systems), description="system")
    output = widgets.Output()

    def answer(_=None):
        held = {place: box.value for place, box in enumerate(places) if box.value}
        output.outputs = (_shown(_picture(look, held, specimen.value, system.value)),)

    for control in (*places, specimen, system):
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([grid, specimen, system, output]))


def _picture(look, held: dict[int, str], specimen: int, system: str) -> str:
    """The HTML that answers one picture."""
    if not held:
        return "<p>Put something into the picture.</p>"
    try:
        image, words, weights, sentence = look(held, specimen, system)
    except ValueError as error:
        return f"<p>{escape(str(error))}</p>"
    if not len(words):
        return "<p>The model wrote nothing.</p>"
    if weights is None:  # the picture is shown all the same, with nothing read
        weights = torch.zeros(len(words), 1)
    view = ImageAttentionView(image, words, weights, title=system)
    return f"<p>{escape(sentence)}</p>" + view._repr_html_()


def _scores(keys: int) -> dict[str, torch.nn.Module]:
    """Every score for vectors of width 2; what a score learns is drawn once, by a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {
            "DotScore": attention.DotScore(),
            "ScaledDotScore": attention.ScaledDotScore(),
            "CosineScore": attention.CosineScore(),
            "GeneralScore": attention.GeneralScore(2, 2),
            "AdditiveScore": attention.AdditiveScore(2, 2, 8),
            "ConcatScore": attention.ConcatScore(2, 2, 8),
            "LocationScore": attention.LocationScore(2, keys),
        }


def _widgets():
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError("the explorer needs ipywidgets: install it with  pip install ipywidgets") from error
    return ipywidgets


def _shown(html: str) -> dict:
    """An output as ipywidgets keeps it: set as a value, so that it also holds where no front end listens."""
    return {"output_type": "display_data", "data": {"text/html": html}, "metadata": {}}


def _publish(widget) -> None:
    text = "This explorer needs a running kernel: open the chapter in Colab or run it locally."
    publish({**widget._repr_mimebundle_(), "text/html": STATIC, "text/plain": text})
