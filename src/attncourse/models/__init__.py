"""The systems, one module a chapter, built only from the mechanisms and the framework's layers."""

from attncourse.models.interface import Output, SequenceModel, Step
from attncourse.models.rnnsearch import RNNSearch
from attncourse.models.seq2seq import Seq2Seq

__all__ = ["Output", "RNNSearch", "Seq2Seq", "SequenceModel", "Step"]
