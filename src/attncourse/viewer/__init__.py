"""Figures in one style, views to play with in any page, explorers for a live kernel."""

from attncourse.viewer.attention_view import AttentionView
from attncourse.viewer.decoding_view import DecodingStep, DecodingView
from attncourse.viewer.document_view import DocumentView
from attncourse.viewer.explorer import (
    document_explorer,
    pretrained_explorer,
    scene_explorer,
    score_explorer,
    transformer_explorer,
    translation_explorer,
    window_explorer,
)
from attncourse.viewer.heads_view import HeadMaps, HeadsView
from attncourse.viewer.image_plot import image_heatmaps
from attncourse.viewer.image_view import ImageAttentionView
from attncourse.viewer.plots import (
    by_length,
    curves,
    heatmap,
    position_similarity,
    position_table,
    show,
    show_beside,
)
from attncourse.viewer.source import show_source
from attncourse.viewer.style import MECHANISMS, figure_style
from attncourse.viewer.weigh_view import WeighView
from attncourse.viewer.window_view import WindowView

__all__ = [
    "MECHANISMS",
    "AttentionView",
    "DecodingStep",
    "DecodingView",
    "DocumentView",
    "HeadMaps",
    "HeadsView",
    "ImageAttentionView",
    "WeighView",
    "WindowView",
    "by_length",
    "curves",
    "document_explorer",
    "figure_style",
    "heatmap",
    "image_heatmaps",
    "position_similarity",
    "position_table",
    "pretrained_explorer",
    "scene_explorer",
    "score_explorer",
    "show",
    "show_beside",
    "show_source",
    "transformer_explorer",
    "translation_explorer",
    "window_explorer",
]
