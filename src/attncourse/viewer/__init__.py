"""Figures in one style, views to play with in any page, explorers for a live kernel."""

from attncourse.viewer.attention_view import AttentionView
from attncourse.viewer.explorer import scene_explorer, score_explorer, translation_explorer, window_explorer
from attncourse.viewer.image_plot import image_heatmaps
from attncourse.viewer.image_view import ImageAttentionView
from attncourse.viewer.plots import by_length, curves, heatmap, show, show_beside
from attncourse.viewer.source import show_source
from attncourse.viewer.style import MECHANISMS, figure_style
from attncourse.viewer.weigh_view import WeighView
from attncourse.viewer.window_view import WindowView

__all__ = [
    "MECHANISMS",
    "AttentionView",
    "ImageAttentionView",
    "WeighView",
    "WindowView",
    "by_length",
    "curves",
    "figure_style",
    "heatmap",
    "image_heatmaps",
    "scene_explorer",
    "score_explorer",
    "show",
    "show_beside",
    "show_source",
    "translation_explorer",
    "window_explorer",
]
