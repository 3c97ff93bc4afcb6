"""The systems, one module a chapter, built only from the mechanisms and the framework's layers."""

from attncourse.models.detr import DETR, CellBackbone, DetectionMaps
from attncourse.models.hierarchical import Classified, HierarchicalAttentionNetwork
from attncourse.models.image_maps import (
    attention_distance,
    nearest_are_neighbours,
    position_cosines,
    roll_out,
)
from attncourse.models.interface import Output, SequenceModel, Step
from attncourse.models.luong import LuongTranslator
from attncourse.models.pretrained import BertEncoder, PretrainedEncoder
from attncourse.models.rnnsearch import RNNSearch
from attncourse.models.seq2seq import Seq2Seq
from attncourse.models.set_prediction import Detected, answers, match, set_loss
from attncourse.models.show_attend_tell import CellAnnotator, ShowAttendTell, doubly_stochastic_penalty
from attncourse.models.transformer import BASE, BIG, Maps, Transformer
from attncourse.models.vision_transformer import (
    VIT_BASE,
    VIT_LARGE,
    VIT_SMALL,
    VIT_TINY,
    VisionTransformer,
)

__all__ = [
    "BASE",
    "BIG",
    "BertEncoder",
    "CellAnnotator",
    "CellBackbone",
    "Classified",
    "DETR",
    "Detected",
    "DetectionMaps",
    "HierarchicalAttentionNetwork",
    "LuongTranslator",
    "Maps",
    "Output",
    "PretrainedEncoder",
    "RNNSearch",
    "Seq2Seq",
    "SequenceModel",
    "ShowAttendTell",
    "Step",
    "Transformer",
    "VIT_BASE",
    "VIT_LARGE",
    "VIT_SMALL",
    "VIT_TINY",
    "VisionTransformer",
    "answers",
    "attention_distance",
    "doubly_stochastic_penalty",
    "match",
    "nearest_are_neighbours",
    "position_cosines",
    "roll_out",
    "set_loss",
]
