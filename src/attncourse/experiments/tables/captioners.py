"""Tables of captioners of digit scenes: four ways of looking, and the devices against noise."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import nn

from attncourse.data import collate_scenes, scene_corpus
from attncourse.data.scenes import SceneCorpus
from attncourse.experiments.captions import (
    ALL_DEVICES,
    CHOICES,
    DEVICES,
    DRAWS,
    LABEL_STEPS,
    SIZE,
    STEPS,
    ReinforceLoss,
    caption_scores,
    captioner,
    fit_captions,
    gradient_noise,
    label_annotator,
    untrained_captioner,
)
from attncourse.experiments.declarations import Experiment, Measure, Row, Training, run_row
from attncourse.models import CellAnnotator, ShowAttendTell
from attncourse.training import History

scenes = lru_cache(maxsize=1)(scene_corpus)  # one for all systems: composing it takes seconds


@lru_cache(maxsize=1)
def _annotator(load: Callable[[], SceneCorpus], steps: int, size: int, seed: int) -> CellAnnotator:
    """The trained annotator, which all systems of a seed share."""
    return label_annotator(load(), steps=steps, size=size, seed=seed)


def fit_captioner(model: ShowAttendTell, corpus: SceneCorpus, training: Training, seed: int) -> History:
    """`fit_captions` with a declared budget; devices are those of `ReinforceLoss`."""
    loss = ReinforceLoss(**training.extra) if training.extra else None
    return fit_captions(model, corpus, loss, seed=seed, size=training.size, evaluations=training.evaluations,
                        **training.options())


def run_captioner(row: Row, seed: int) -> dict:
    """`run_row` on the annotator that the row's `before` says."""
    annotator = _annotator(row.corpus, row.before.steps, row.before.size, seed)
    return run_row(replace(row, options={**row.options, "annotator": annotator}), seed)


TRAINING = Training(STEPS, SIZE, clip=5.0, evaluations=5)
CAPTIONER = Row(
    "", build=untrained_captioner, corpus=scenes, fit=fit_captioner, run=run_captioner,
    before=Training(LABEL_STEPS, SIZE), trainings=(TRAINING,),
    measures=(Measure("share of captions right in every word, decoded greedily; share of digit words at "
                      "which the most attended cell lies on the digit", caption_scores),),
)

CAPTIONS = Experiment(
    "captions",
    "Captions of digit scenes whose digits no training scene holds, on a frozen CNN that was trained on the "
    "labels of whole images.",
    [replace(CAPTIONER, name=name, options={"system": name}) for name in CHOICES],
)

# --- The noise in the gradient of a choice -----------------------------------------------------------------

# The model whose noise is measured is trained for three fifths of the steps, with all devices.
PARTLY = replace(TRAINING, steps=600, label="noise")


def noise_on(model: nn.Module, corpus: SceneCorpus, scenes: list) -> dict:
    """`gradient_noise` with each of the devices, on one batch of these scenes."""
    batch = collate_scenes(scenes, corpus.vocabulary)
    return gradient_noise(model, batch.to(next(model.parameters()).device))


NOISE = Measure(
    f"summed variance of the score-function gradient of the attention's parameters over {DRAWS} draws, and "
    "its signal to noise", noise_on, on="train", count=64, after="noise",
)


@lru_cache(maxsize=1)
def _noise(
    load: Callable[[], SceneCorpus], label_steps: int, steps: int, size: int, seed: int
) -> dict[str, dict[str, float]]:
    """The noise with all devices, on one partly trained model."""
    corpus, annotator = load(), _annotator(load, label_steps, size, seed)
    model = captioner(corpus, annotator, "REINFORCE", seed=seed)
    fit_captioner(model, corpus, replace(PARTLY, steps=steps, size=size), seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return NOISE.numbers(model, corpus, NOISE.items(corpus))


def run_devices(row: Row, seed: int) -> dict:
    """What becomes of a model trained with these devices; and, where they change it, the gradient's noise."""
    whole, *partly = row.trainings
    numbers = run_captioner(replace(row, trainings=(whole,)), seed)
    for training in partly:
        noise = _noise(row.corpus, row.before.steps, training.steps, training.size, seed)
        numbers |= {metric: round(values[row.name], 6) for metric, values in noise.items()}
        numbers["relative variance"] = round(noise["variance"][row.name] / noise["variance"]["plain"], 6)
    return numbers


# Reading by expectation, the last device, changes nothing about the choices that are drawn.
REINFORCE_VARIANCE = Experiment(
    "reinforce_variance",
    "Captions of digit scenes as in `captions`, by sampled choices, with more and more devices against the "
    "noise of the score-function gradient.",
    [
        *(replace(CAPTIONER, name=name, options={"system": "REINFORCE"}, run=run_devices,
                  trainings=(replace(TRAINING, extra=devices), PARTLY),
                  measures=(*CAPTIONER.measures, NOISE))
          for name, devices in DEVICES.items()),
        replace(CAPTIONER, name=ALL_DEVICES, options={"system": "REINFORCE"}),
    ],
)

EXPERIMENTS = [CAPTIONS, REINFORCE_VARIANCE]
