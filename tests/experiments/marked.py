"""Tiny corpora whose parts can be told apart in what a model is given, and a record of who saw which part.

In sentences each part has a word of its own, with an id that no target can have; in images, a brightness.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from attncourse.data import (
    Alignment,
    Corpus,
    Document,
    DocumentCorpus,
    ImageCorpus,
    LabelledImages,
    Pair,
    Vocabulary,
    boxed_scenes,
    scene_corpus,
)
from attncourse.experiments import (
    captions,
    detection,
    heads,
    image_classifiers,
    longer_inputs,
    lookup,
    pooling,
    pretrained_heads,
    roles,
    sequences,
)
from attncourse.experiments.tables import captioners, drawn
from attncourse.models.pretrained import SentenceHeads
from attncourse.training import train

PARTS = ("train", "dev", "test", "new")
WORDS = [f"w{i}" for i in range(200)]
TARGETS = Vocabulary(list("abcd"))
SOURCES = Vocabulary([*WORDS, *PARTS])  # the parts come last: their ids are larger than any target's
MARKS = {SOURCES.encode([part])[0]: part for part in PARTS}
LENGTHS = (4, 5, 7, 9, 11, 13)  # one in each group of lengths of words


def pairs(part: str) -> list[Pair]:
    """One pair of each length; its words move by 0 to 3 places."""
    found = []
    for i, length in enumerate(LENGTHS):
        links = frozenset({(0, i % 4)})
        found.append(Pair((part, *WORDS[: length - 1]), tuple("abcd"), Alignment(links, links)))
    return found


def sentences(*_asked) -> list[Pair]:
    """Sentences to measure on: the first ones are training sentences, and must be left out."""
    return [*pairs("train"), *pairs("new")]


def corpus(**_data) -> Corpus:
    """Pairs; also where a real corpus would be downloaded."""
    return Corpus("marked", *(pairs(part) for part in PARTS[:3]), SOURCES, TARGETS)


def documents(**_data) -> DocumentCorpus:
    """Documents of two sentences."""
    parts = [[Document(((part, f"w{i}"), ("w0", part)), i % 2, 0, (1,)) for i in range(6)] for part in PARTS]
    return DocumentCorpus("marked", *parts[:3], SOURCES, ("bad", "good"))


def _bright(image: torch.Tensor, part: str) -> torch.Tensor:
    """The image at less than half of its strength, above the brightness of the part."""
    return image / 4 + 1 + PARTS.index(part)


def scenes(**_data):
    """Captioned scenes."""
    made = scene_corpus(70, dev=6, test=6)
    return _lit(made)


def boxed(*, seed: int, **_data):
    """Scenes with boxes."""
    return _lit(boxed_scenes(8, dev=4, test=4, seed=seed))


def _lit(made):
    return dataclasses.replace(made, **{
        part: [dataclasses.replace(one, image=_bright(one.image, part)) for one in getattr(made, part)]
        for part in PARTS[:3]
    })


def images(channels: int, side: int):
    """A loader of labelled images of this size."""

    def load(**_data) -> ImageCorpus:
        draw = torch.Generator().manual_seed(0)
        parts = [
            LabelledImages(_bright(torch.rand(6, channels, side, side, generator=draw), part),
                           torch.arange(6) % 10)
            for part in PARTS[:3]
        ]
        return ImageCorpus("marked", *parts, tuple("abcdefghij"))

    return load


class Record:
    """What was seen while one row ran.

    Attributes:
        seen: the parts that went into a model, by phase: "train", "choose" and "measure".
        fits: for each call of `train`: what it was given, and the rates, batches and looks that it came to.
    """

    def __init__(self):
        self.phase, self.fits = "measure", []
        self.seen: dict[str, set[str]] = {"train": set(), "choose": set(), "measure": set()}
        self.drawn: dict[str, set[tuple]] = {"train": set(), "measure": set()}

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Within it, this is what is going on."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    def look(self, module: nn.Module, given: tuple) -> None:
        """Before every forward of every module: which parts are in what it is given?"""
        if isinstance(module, (longer_inputs.CardReader, lookup.LookUp, roles.WhoDoesWhat)):
            columns = [given[0]] if isinstance(given[0], torch.Tensor) else given[0]
            rows = torch.cat([column.reshape(len(column), -1) for column in columns], 1)
            self.drawn[self.phase] |= set(map(tuple, rows.tolist()))
            return
        first = given[0] if given and isinstance(given[0], torch.Tensor) else torch.zeros(0)
        if isinstance(module, nn.Embedding):
            self.seen[self.phase] |= {MARKS[i] for i in set(first.flatten().tolist()) & MARKS.keys()}
        elif first.dim() == 4 and first.shape[1:] in {(1, 32, 32), (1, 48, 48), (1, 8, 8), (3, 32, 32)}:
            for bright in first.flatten(1).amax(1).tolist():
                self.seen[self.phase].add(PARTS[int(bright) - 1])

    def train(self, model, loss, batches, *, evaluate=None, **options):
        """In the place of `train`: as it is, but watched."""
        given, looks = [], []
        self.fits.append({"model": model, "batches": given, "looks": looks, "rates": [], **options,
                          "smoothing": getattr(loss, "keywords", {}).get("smoothing", 0.0)})

        class Watched:
            def __getitem__(self, step):
                given.append(batches[step])
                return given[-1]

        def watched(model):
            with self.during("choose"):
                looks.append(1)
                return evaluate(model)

        with self.during("train"):
            return train(model, loss, Watched(), evaluate=evaluate and watched, device="cpu", progress=False,
                         **options)

    def updated(self, optimiser, _given, _options) -> None:
        """After every update of every optimiser."""
        self.fits[-1]["rates"].append(optimiser.param_groups[0]["lr"])

    def choosing(self, choose):
        """A function that chooses after the training, watched."""

        def watched(*given, **options):
            with self.during("choose"):
                return choose(*given, **options)

        return watched


class Encoder:
    """In the place of the pretrained one: even heads, and a note of the parts that it read."""

    def __init__(self, record: Record):
        self.record, self.model = record, nn.Linear(2, 2)

    def heads_of(self, text: str) -> SentenceHeads:
        """One layer of one head."""
        self.record.seen["measure"] |= set(text.removesuffix(".").split()) & set(PARTS)
        tokens = ["[CLS]", *text.split(), "[SEP]"]
        return SentenceHeads(tokens, torch.full((1, 1, len(tokens), len(tokens)), 1 / len(tokens)))


@contextmanager
def recorded(monkeypatch) -> Iterator[Record]:
    """A record of what runs within it, on marked data."""
    record = Record()
    for module in (captions, detection, image_classifiers, longer_inputs, lookup, pooling, roles, sequences,
                   drawn):
        if hasattr(module, "train"):
            monkeypatch.setattr(module, "train", record.train)
    monkeypatch.setattr(sequences, "sentences", sentences)
    monkeypatch.setattr(heads, "SENTENCE", " ".join(pairs("test")[0].source))
    monkeypatch.setattr(pretrained_heads, "_encoder", lambda: Encoder(record))
    for name in ("pruning_order", "damages"):
        monkeypatch.setattr(heads, name, record.choosing(getattr(heads, name)))
    monkeypatch.setattr(captioners, "gradient_noise", partial(captions.gradient_noise, draws=4))
    captioners._annotator.cache_clear()
    captioners._noise.cache_clear()
    hooks = [
        nn.modules.module.register_module_forward_pre_hook(record.look),
        register_optimizer_step_post_hook(record.updated),
    ]
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()
