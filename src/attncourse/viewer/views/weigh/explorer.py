"""Choose the score and the temperature, move the query: the package computes the weights anew."""

import torch

from attncourse import attention
from attncourse.viewer.plots.figure import figure_html
from attncourse.viewer.plots.plane import plane
from attncourse.viewer.views.explorer import explore, load_widgets

KEYS = {"k1": (2.0, 0.5), "k2": (1.0, 1.6), "k3": (-1.5, 1.0), "k4": (-0.5, -1.8)}


def score_explorer() -> None:
    """Choose the score and the temperature, move the query: `attncourse.attention` computes the weights."""
    widgets = load_widgets()
    labels, keys = list(KEYS), torch.tensor(list(KEYS.values()))
    scores = _scores(len(keys))
    controls = [
        widgets.Dropdown(options=list(scores), value="ScaledDotScore", description="score"),
        widgets.FloatLogSlider(value=1, base=2, min=-3, max=3, step=0.1, description="temperature"),
        widgets.FloatSlider(value=1.5, min=-2.5, max=2.5, step=0.1, description="query x"),
        widgets.FloatSlider(value=1.0, min=-2.5, max=2.5, step=0.1, description="query y"),
    ]
    for control in controls:
        control.style.description_width = "6.5em"

    def answer(name: str, temperature: float, x: float, y: float) -> str:
        query, module = torch.tensor([[x, y]]), scores[name]
        with torch.no_grad():
            context, weights = attention.attend(
                query, keys, keys, score=lambda q, k: module(q, k) / temperature
            )
        title = f"{name} at temperature {temperature:.2f}"
        named = zip(labels, weights[0].tolist(), strict=True)
        alt = f"{title}: " + ", ".join(f"{label} {weight:.2f}" for label, weight in named)
        return figure_html(plane(query[0], keys, weights[0], context[0], labels=labels, title=title), alt)

    explore(answer, controls)


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
