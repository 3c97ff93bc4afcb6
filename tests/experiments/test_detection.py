"""Training DETR: the weight of "no object" hangs on the step alone."""

from itertools import count

import pytest
import torch

from attncourse.data import boxed_batches, boxed_scenes
from attncourse.experiments import detection
from attncourse.experiments.detection import WeighedBatches, detector, fit_detector, label_backbone
from attncourse.training import train

CORPUS = boxed_scenes(6, dev=2, test=2)


def test_a_step_brings_its_own_weight_however_often_it_is_asked():
    """Counted by the loss, the weight would depend on how often the loss was called before."""
    batches = WeighedBatches(boxed_batches(CORPUS.train, 2, 0), (0.1, 1.0), falls_at=2.5)
    assert [batches[step].no_object for step in (3, 0, 3, 2, 1)] == [1.0, 0.1, 1.0, 0.1, 0.1]
    assert torch.equal(batches[4].to("cpu").scenes.images, batches[4].scenes.images)


def test_an_interrupted_run_has_the_weights_of_one_that_was_not(tmp_path, monkeypatch):
    """Stopped after half of the steps and resumed, "no object" must not count 0.1 once more."""

    def fitted(*, stop=None):
        evaluations = count(1)

        def evaluate(model):
            if next(evaluations) == stop:
                raise KeyboardInterrupt
            return 0.0

        def interrupted(model, loss, batches, **options):
            return train(model, loss, batches, checkpoint=tmp_path / f"{stop or 'resumed'}.pt",
                         evaluate=evaluate, evaluate_every=1, device="cpu", progress=False, **options)

        monkeypatch.setattr(detection, "train", interrupted)
        backbone = label_backbone(CORPUS, steps=0)
        model = detector(CORPUS, backbone, width=16, heads=2, inner=8, decoder_layers=1)
        return fit_detector(model, CORPUS, steps=6, size=2).loss

    whole = fitted()
    with pytest.raises(KeyboardInterrupt):
        fitted(stop=4)
    (tmp_path / "resumed.pt").unlink()
    (tmp_path / "4.pt").rename(tmp_path / "resumed.pt")
    assert fitted() == whole
