"""Explorers for a live kernel: the reader's own input goes through the package itself.

They need Jupyter or Colab. In a page without a kernel a moved slider beside a number that stays would
mislead, so each explorer also carries one sentence of HTML, which is all that such a page shows.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from html import escape

import torch
from torch import Tensor

from attncourse import attention
from attncourse.viewer.places import checked_image
from attncourse.viewer.plots.plots import figure_html, plane
from attncourse.viewer.publish import publish
from attncourse.viewer.views.attention.view import AttentionView
from attncourse.viewer.views.detection.view import DetectionView, pixel_boxes
from attncourse.viewer.views.document.view import DocumentView
from attncourse.viewer.views.heads.view import HeadMaps, HeadsView
from attncourse.viewer.views.image.view import ImageAttentionView
from attncourse.viewer.views.patch.view import PatchView, square_grid

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


def patch_explorer(model, images: Tensor, labels: Sequence[int], *, class_token: bool = True) -> None:
    """Choose an image, push it by some pixels, and see what a Vision Transformer says and where a head looks.

    Args:
        model: a `VisionTransformer` in evaluation mode: `model(images)` are the logits, and
            `model.attention_maps(images)` the weights (batch, layers, heads, tokens, tokens).
        images: (images, channels, height, width), from 0 to 1.
        labels: what each of them shows.
        class_token: whether the model's token 0 is one that stands for no patch.
    """
    if not len(images) or len(images) != len(labels):
        raise ValueError(
            f"images holds {len(images)} images for {len(labels)} labels: one for each, and at least one"
        )
    widgets = _widgets()
    with torch.no_grad():
        layers, heads = model.attention_maps(images[:1]).shape[1:3]
    most = max(1, images.shape[-1] // 4)
    image = widgets.IntSlider(value=0, min=0, max=len(images) - 1, description="image")
    right = widgets.IntSlider(value=0, min=-most, max=most, description="push right")
    down = widgets.IntSlider(value=0, min=-most, max=most, description="push down")
    layer = widgets.Dropdown(options=list(range(1, layers + 1)), value=layers, description="layer")
    head = widgets.Dropdown(options=[("mean of all", None), *[(str(h + 1), h) for h in range(heads)]],
                            description="head")
    output = widgets.Output()

    def answer(_=None):
        pushed = _pushed(images[image.value], down.value, right.value)
        with torch.no_grad():
            odds = model(pushed[None])[0].softmax(-1)
            maps = model.attention_maps(pushed[None])[0, layer.value - 1]
        maps = maps.mean(0, keepdim=True) if head.value is None else maps[[head.value]]
        said = odds.argmax().item()
        view = PatchView(
            pushed, maps[None], class_token=class_token, prediction=f"{said} ({odds[said]:.2f})",
            label=str(int(labels[image.value])), title=f"Layer {layer.value}, head: {head.label}",
        )
        output.outputs = (_shown(view._repr_html_()),)

    for control in (image, right, down, layer, head):
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([image, right, down, layer, head, output]))


def _pushed(image: Tensor, down: int, right: int) -> Tensor:
    """An image (channels, height, width) some pixels further; what leaves is lost, what enters is black."""
    pushed = image.roll((down, right), (-2, -1))
    for amount, dim in ((down, -2), (right, -1)):
        size = pushed.shape[dim]
        edge = slice(0, amount) if amount > 0 else slice(size + amount, size)
        pushed.transpose(dim, -1)[..., edge] = 0
    return pushed


def detection_explorer(
    model,
    scenes: Tensor,
    classes: Sequence[str],
    things: Mapping[str, Tensor],
) -> None:
    """Choose a scene, put one more thing into it and move that about: the model detects anew each time.

    Args:
        model: a `DETR` in evaluation mode: `model(images)` has `logits` (batch, queries, classes + 1) and
            `boxes` (batch, queries, 4) as (cx, cy, w, h) in shares of the image, and
            `model.attention_maps(images)` has `decoder` (batch, layers, heads, queries, cells) and `encoder`
            (batch, layers, heads, cells, cells).
        scenes: (scenes, channels, height, width), from 0 to 1.
        classes: their names, without "no object".
        things: {name: (channels, height, width)}, small pictures, white on black, that can be added.
    """
    if not len(scenes):
        raise ValueError("scenes is empty: give at least one to begin with")
    if not things:
        raise ValueError("things is empty: give at least one that can be put into a scene")
    widgets = _widgets()
    scene = widgets.IntSlider(value=0, min=0, max=len(scenes) - 1, description="scene")
    thing = widgets.Dropdown(options=["(nothing)", *things], description="add")
    across, down = (
        widgets.IntSlider(value=50, min=0, max=100, description=name, continuous_update=False)
        for name in ("across, %", "down, %")
    )
    threshold = widgets.FloatSlider(value=0.5, min=0, max=1, step=0.05, description="score from")
    output = widgets.Output()

    def answer(_=None):
        image = scenes[scene.value]
        if thing.value in things:
            image = _with(image, things[thing.value], down.value / 100, across.value / 100)
        output.outputs = (_shown(_detected(model, image, classes, threshold.value)),)

    for control in (scene, thing, across, down, threshold):
        control.observe(answer, "value")
    answer()
    _publish(widgets.VBox([scene, thing, across, down, threshold, output]))


def _with(scene: Tensor, thing: Tensor, down: float, across: float) -> Tensor:
    """A scene with one more thing at a share of the way; where both have ink, the brighter one shows."""
    scene = scene.clone()
    height, width = thing.shape[-2:]
    top, left = round(down * (scene.shape[-2] - height)), round(across * (scene.shape[-1] - width))
    under = scene[:, top : top + height, left : left + width]
    under.copy_(torch.maximum(under, thing.to(scene)))
    return scene


def _detected(model, image: Tensor, classes: Sequence[str], threshold: float) -> str:
    """The HTML that answers one image."""
    with torch.no_grad():
        found, maps = model(image[None]), model.attention_maps(image[None])
    probabilities = found.logits[0].softmax(-1)
    decoder = maps.decoder[0].mean(1)  # (layers, queries, cells)
    grid = square_grid(decoder.shape[-1], checked_image(image))
    if grid is None:
        raise ValueError(
            f"scenes are {image.shape[-2]} by {image.shape[-1]} pixels, which {decoder.shape[-1]} square "
            "cells do not fill"
        )
    view = DetectionView(
        image, pixel_boxes(found.boxes[0], image), classes, probabilities,
        {f"layer {i + 1}": layer.unflatten(-1, grid) for i, layer in enumerate(decoder)},
        encoder_weights=maps.encoder[0], threshold=threshold, title="What the queries find",
    )
    return view._repr_html_()


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
