"""Figures in one style, views to play with in any page, explorers for a live kernel."""

from attncourse.viewer.attention_view import AttentionView
from attncourse.viewer.explorer import score_explorer, translation_explorer, window_explorer
from attncourse.viewer.plots import by_length, curves, heatmap, show, show_beside
from attncourse.viewer.source import show_source
from attncourse.viewer.style import MECHANISMS, figure_style
from attncourse.viewer.weigh_view import WeighView
from attncourse.viewer.window_view import WindowView

__all__ = [
    "MECHANISMS",
    "AttentionView",
    "WeighView",
    "WindowView",
    "by_length",
    "curves",
    "figure_style",
    "heatmap",
    "score_explorer",
    "show",
    "show_beside",
    "show_source",
    "translation_explorer",
    "window_explorer",
]
