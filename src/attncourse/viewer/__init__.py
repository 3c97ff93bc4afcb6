"""Figures in one style, views to play with in any page, explorers for a live kernel."""

from attncourse.viewer.attention_view import AttentionView
from attncourse.viewer.explorer import score_explorer, translation_explorer
from attncourse.viewer.plots import by_length, curves, heatmap, show
from attncourse.viewer.source import show_source
from attncourse.viewer.style import MECHANISMS, figure_style
from attncourse.viewer.weigh_view import WeighView

__all__ = [
    "MECHANISMS",
    "AttentionView",
    "WeighView",
    "by_length",
    "curves",
    "figure_style",
    "heatmap",
    "score_explorer",
    "show",
    "show_source",
    "translation_explorer",
]
