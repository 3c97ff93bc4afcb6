"""Figures in one style, views to play with in any page, explorers for a live kernel."""

from attncourse.viewer.plots.curves import by_length, curves
from attncourse.viewer.plots.detection import BoxedPanel, draw_boxes, query_boxes
from attncourse.viewer.plots.figure import show, show_beside
from attncourse.viewer.plots.heatmap import heatmap
from attncourse.viewer.plots.image import image_heatmaps
from attncourse.viewer.plots.patch import distance_by_layer, position_maps
from attncourse.viewer.plots.positions import position_similarity, position_table
from attncourse.viewer.predictions import predict
from attncourse.viewer.source import show_source
from attncourse.viewer.style import MECHANISMS, figure_style
from attncourse.viewer.tables import show_table
from attncourse.viewer.views.attention.explorer import translation_explorer
from attncourse.viewer.views.attention.view import AttentionView
from attncourse.viewer.views.decoding.view import DecodingStep, DecodingView
from attncourse.viewer.views.detection.explorer import detection_explorer
from attncourse.viewer.views.detection.view import DetectionView, pixel_boxes
from attncourse.viewer.views.document.explorer import document_explorer
from attncourse.viewer.views.document.view import DocumentView
from attncourse.viewer.views.heads.explorer import pretrained_explorer, transformer_explorer
from attncourse.viewer.views.heads.view import HeadMaps, HeadsView
from attncourse.viewer.views.image.explorer import scene_explorer
from attncourse.viewer.views.image.view import ImageAttentionView
from attncourse.viewer.views.patch.explorer import patch_explorer
from attncourse.viewer.views.patch.view import PatchView
from attncourse.viewer.views.weigh.explorer import score_explorer
from attncourse.viewer.views.weigh.view import WeighView
from attncourse.viewer.views.window.explorer import window_explorer
from attncourse.viewer.views.window.view import WindowView

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
    "predict",
    "pretrained_explorer",
    "query_boxes",
    "scene_explorer",
    "score_explorer",
    "show",
    "show_beside",
    "show_source",
    "show_table",
    "transformer_explorer",
    "translation_explorer",
    "window_explorer",
]
