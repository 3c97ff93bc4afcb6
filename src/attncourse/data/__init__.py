"""Corpora, and the one vocabulary and batching code that all of them share."""

from attncourse.data.batches import Batches
from attncourse.data.cifar import cifar10_corpus
from attncourse.data.coco import coco_images
from attncourse.data.copying import copying_corpus
from attncourse.data.detection import (
    BoxedBatch,
    BoxedCorpus,
    BoxedImage,
    boxed_batches,
    boxed_scenes,
    collate_boxed,
)
from attncourse.data.documents import (
    Document,
    DocumentBatch,
    DocumentCorpus,
    collate_documents,
    document_batches,
    documents_corpus,
)
from attncourse.data.images import ImageCorpus, LabelledImages, digits_corpus, image_batches
from attncourse.data.multi30k import multi30k_corpus
from attncourse.data.pairs import Alignment, Batch, Corpus, Pair, collate, pair_batches
from attncourse.data.pronunciation import describe_pronunciation, pronunciation_corpus
from attncourse.data.reviews import cut_sentences, reviews_corpus
from attncourse.data.scenes import Scene, collate_scenes, make_scenes, scene_batches, scene_corpus
from attncourse.data.translation import sentences, translation_corpus
from attncourse.data.vocabulary import END, PAD, START, UNKNOWN, Vocabulary, normalise, tokenize

__all__ = [
    "Alignment",
    "Batch",
    "Batches",
    "BoxedBatch",
    "boxed_batches",
    "BoxedCorpus",
    "BoxedImage",
    "Corpus",
    "Document",
    "DocumentBatch",
    "document_batches",
    "DocumentCorpus",
    "END",
    "image_batches",
    "ImageCorpus",
    "LabelledImages",
    "PAD",
    "Pair",
    "START",
    "Scene",
    "scene_batches",
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
    "pair_batches",
    "pronunciation_corpus",
    "reviews_corpus",
    "scene_corpus",
    "sentences",
    "tokenize",
    "translation_corpus",
]
