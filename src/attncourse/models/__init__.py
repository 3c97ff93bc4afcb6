"""The systems, one module a chapter, built only from the mechanisms and the framework's layers."""

from attncourse.models.interface import Output, SequenceModel, Step
from attncourse.models.luong import LuongTranslator
from attncourse.models.rnnsearch import RNNSearch
from attncourse.models.seq2seq import Seq2Seq
from attncourse.models.show_attend_tell import CellAnnotator, ShowAttendTell, doubly_stochastic_penalty

__all__ = [
    "CellAnnotator",
    "LuongTranslator",
    "Output",
    "RNNSearch",
    "Seq2Seq",
    "SequenceModel",
    "ShowAttendTell",
    "Step",
    "doubly_stochastic_penalty",
]
