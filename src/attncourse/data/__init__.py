"""Corpora, and the one vocabulary and batching code that all of them share."""

from attncourse.data.cifar import cifar10_corpus
from attncourse.data.coco import coco_images
from attncourse.data.copying import copying_corpus
from attncourse.data.detection import (
    BoxedBatch,
    BoxedBatches,
    BoxedCorpus,
    BoxedImage,
    boxed_scenes,
    collate_boxed,
)
from attncourse.data.documents import (
    Document,
    DocumentBatch,
    DocumentBatches,
    DocumentCorpus,
    collate_documents,
    documents_corpus,
)
from attncourse.data.images import ImageBatches, ImageCorpus, LabelledImages, digits_corpus
from attncourse.data.multi30k import multi30k_corpus
from attncourse.data.pairs import Alignment, Batch, Batches, Corpus, Pair, collate
from attncourse.data.pronunciation import describe_pronunciation, pronunciation_corpus
from attncourse.data.reviews import cut_sentences, reviews_corpus
from attncourse.data.scenes import Scene, SceneBatches, collate_scenes, make_scenes, scene_corpus
from attncourse.data.translation import sentences, translation_corpus
from attncourse.data.vocabulary import END, PAD, START, UNKNOWN, Vocabulary, normalise, tokenize

__all__ = [
    "Alignment",
    "Batch",
    "Batches",
    "BoxedBatch",
    "BoxedBatches",
    "BoxedCorpus",
    "BoxedImage",
    "Corpus",
    "Document",
    "DocumentBatch",
    "DocumentBatches",
    "DocumentCorpus",
    "END",
    "ImageBatches",
    "ImageCorpus",
    "LabelledImages",
    "PAD",
    "Pair",
    "START",
    "Scene",
    "SceneBatches",
    "UNKNOWN",
    "Vocabulary",
    "boxed_scenes",
    "cifar10_corpus",
    "coco_images",
    "collate",
    "collate_boxed",
    "collate_documents",
    "collate_scenes",
    "copying_corpus",
    "cut_sentences",
    "describe_pronunciation",
    "digits_corpus",
    "documents_corpus",
    "make_scenes",
    "multi30k_corpus",
    "normalise",
    "pronunciation_corpus",
    "reviews_corpus",
    "scene_corpus",
    "sentences",
    "tokenize",
    "translation_corpus",
]
