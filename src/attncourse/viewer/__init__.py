"""Figures in one style, views to play with in any page, explorers for a live kernel."""

from attncourse.viewer.attention_view import AttentionView
from attncourse.viewer.decoding_view import DecodingStep, DecodingView
from attncourse.viewer.detection_plot import BoxedPanel, draw_boxes, query_boxes
from attncourse.viewer.detection_view import DetectionView, pixel_boxes
from attncourse.viewer.document_view import DocumentView
from attncourse.viewer.explorer import (
    detection_explorer,
    document_explorer,
    patch_explorer,
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
from attncourse.viewer.patch_plot import distance_by_layer, position_maps
from attncourse.viewer.patch_view import PatchView
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
    "BoxedPanel",
    "DecodingStep",
    "DecodingView",
    "DetectionView",
    "DocumentView",
    "HeadMaps",
    "HeadsView",
    "ImageAttentionView",
    "PatchView",
    "WeighView",
    "WindowView",
    "by_length",
    "curves",
    "detection_explorer",
    "distance_by_layer",
    "document_explorer",
    "draw_boxes",
    "figure_style",
    "heatmap",
    "image_heatmaps",
    "patch_explorer",
    "pixel_boxes",
    "position_maps",
    "position_similarity",
    "position_table",
    "pretrained_explorer",
    "query_boxes",
    "scene_explorer",
    "score_explorer",
    "show",
    "show_beside",
    "show_source",
    "transformer_explorer",
    "translation_explorer",
    "window_explorer",
]
