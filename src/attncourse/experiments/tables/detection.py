"""The table of DETR: with more training, and with a part taken away."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from attncourse.data import boxed_scenes
from attncourse.data.detection import BoxedCorpus
from attncourse.experiments.declarations import Experiment, Measure, Row, Training
from attncourse.experiments.detection import (
    CLIP,
    LABEL_STEPS,
    NO_OBJECT,
    RATE,
    SIZE,
    STEPS,
    detection_scores,
    fit_detector,
    label_backbone,
    untrained_detector,
)
from attncourse.experiments.sequences import parameters
from attncourse.models import DETR
from attncourse.training import History

SCENES = {"train": 8_000}
scenes = lru_cache(maxsize=1)(boxed_scenes)  # one for all systems of a seed: composing it takes seconds


def fit_declared(model: DETR, corpus: BoxedCorpus, training: Training, seed: int) -> History:
    """`fit_detector` with a declared budget."""
    return fit_detector(model, corpus, steps=training.steps, seed=seed, size=training.size,
                        rate=training.rate, clip=training.clip, **training.extra)


def run_detector(row: Row, seed: int) -> dict:
    """The CNN on labels, then all on boxes, both timed; each seed draws scenes of its own."""
    corpus, [training] = row.corpus(**row.data, seed=seed), row.trainings
    started = time.process_time()
    seen = row.before.parts_of(corpus, seed)
    backbone = label_backbone(seen, steps=row.before.steps, size=row.before.size, seed=seed)
    model = replace(row, options={**row.options, "backbone": backbone}).model(corpus, seed)
    row.fit(model, training.parts_of(corpus, seed), training, seed)
    seconds = round(time.process_time() - started, 1)
    numbers = row.measured(model, corpus)
    return {"parameters": parameters(model), "processor seconds": seconds, **numbers}


FOUND = Measure(
    "AP as COCO measures it; at a score above 0.5 and with nothing suppressed, share of scenes in which a "
    "thing is found twice, and in which the number of things is right",
    lambda model, _corpus, scenes: detection_scores(model, scenes),
)


def _row(name: str, *, steps: int = STEPS, label_steps: int = LABEL_STEPS, data: Mapping = SCENES,
         no_object: tuple[float, float] = NO_OBJECT, auxiliary: bool = True, **options) -> Row:
    budget = Training(steps, SIZE, RATE, CLIP, extra={"no_object": no_object, "auxiliary": auxiliary})
    return Row(
        name, build=untrained_detector, options=options, dropout=0.0, corpus=scenes, data=data,
        fit=fit_declared, run=run_detector, measures=(FOUND,), before=Training(label_steps, SIZE),
        trainings=(budget,),
    )


DETECTION = Experiment(
    "detection",
    "Scenes of 1 to 5 handwritten digits on 48 x 48 pixels, those of the test part of digits that no "
    "training scene holds; the CNN is first trained on the labels of whole images.",
    [
        _row("as in the chapter"),
        _row("without an encoder", encoder_layers=0),
        _row("without auxiliary losses", auxiliary=False),
        _row("CNN not trained before", label_steps=0),
        _row("'no object' counts 0.1", no_object=(0.1, 0.1)),
        _row("longer", data={"train": 20_000}, steps=6_000),
    ],
)

EXPERIMENTS = [DETECTION]
