"""Captions of digit scenes by four ways of looking, and the noise in the gradient of a choice."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import (
    MovingAverage,
    entropy,
    log_probability,
    reward_to_go,
    score_function_loss,
)
from attncourse.data import PAD, Scene, collate_scenes, scene_batches
from attncourse.data.scenes import SceneBatch, SceneCorpus
from attncourse.decoding import caption
from attncourse.metrics import pointing_accuracy, sequence_error_rate
from attncourse.models import CellAnnotator, ShowAttendTell, doubly_stochastic_penalty
from attncourse.training import History, train

# How each system chooses what to read (see HardAttention); None reads the mean annotation.
CHOICES = {
    "no attention": None,
    "soft attention": "expectation",
    "REINFORCE": "sample",
    "straight-through Gumbel": "gumbel",
}
# The devices of `ReinforceLoss` against noise, one more in each row.
DEVICES = {
    "plain": {"baseline": None, "to_go": False, "expected": 0.0},
    "moving average": {"baseline": "average", "to_go": False, "expected": 0.0},
    "and reward to go": {"baseline": "average", "to_go": True, "expected": 0.0},
    "and a baseline per step": {"baseline": "per step", "to_go": True, "expected": 0.0},
}
ALL_DEVICES = "and half by expectation"
LABEL_STEPS, STEPS, SIZE, GRID = 600, 1_000, 32, 8
DRAWS = 200  # gradients that the variance is measured on
LONGEST = 32  # words of a caption that a baseline of its own is kept for


def word_log_probabilities(
    logits: Float[Tensor, "batch target vocabulary"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target"]:
    """log p of each word of the caption; 0 for padding."""
    loss = F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, reduction="none")
    return -loss.view_as(target)


def caption_loss(model: ShowAttendTell, batch: SceneBatch, *, penalty: float = 0.0) -> Float[Tensor, ""]:
    """-log p(caption), mean over the batch, and `penalty` times the doubly stochastic term (eq. 14)."""
    told = model(batch.images, batch.target_in)
    loss = -word_log_probabilities(told.logits, batch.target_out).sum(-1).mean()
    if penalty:
        loss = loss + penalty * doubly_stochastic_penalty(told.alpha, batch.target_out != PAD)
    return loss


class ReinforceLoss(nn.Module):
    """The loss of hard attention: minus the lower bound on log p(caption), with a score-function gradient.

    Its gradient is that of eq. 12 with the devices of section 4.1: d log p(y | s) + lambda_r (R - b)
    d log p(s) + lambda_e d H[s], and half of the time s is its expectation alpha. Reward to go and a baseline
    for each step are not in the paper. The paper tosses its coin for each image, we for each mini-batch.

    Args:
        baseline: None; "average", one moving average; or "per step", one for each step.
        to_go: a choice is judged by the words from its step on, not by the whole caption.
        expected: share of the mini-batches that are read by expectation, as soft attention.
        weight: lambda_r.
        entropy_weight: lambda_e.
    """

    def __init__(
        self,
        baseline: str | None = "per step",
        to_go: bool = True,
        expected: float = 0.5,
        weight: float = 0.1,
        entropy_weight: float = 0.002,
    ):
        super().__init__()
        self.average = None if baseline is None else MovingAverage(1 if baseline == "average" else LONGEST)
        self.to_go, self.expected = to_go, expected
        self.weight, self.entropy_weight = weight, entropy_weight

    def forward(self, model: ShowAttendTell, batch: SceneBatch) -> Float[Tensor, ""]:
        if self.expected and torch.rand(()) < self.expected:
            with by_expectation(model):
                return caption_loss(model, batch)
        told, real = model(batch.images, batch.target_in), batch.target_out != PAD
        said = word_log_probabilities(told.logits, batch.target_out)
        uncertainty = (entropy(told.alpha) * real).sum(-1).mean()
        score = self.score_term(log_probability(told.alpha, told.weights) * real, said.detach(), real)
        return -said.sum(-1).mean() + self.weight * score - self.entropy_weight * uncertainty

    def score_term(
        self, chosen: Float[Tensor, "batch steps"], said: Float[Tensor, "batch steps"],
        real: Bool[Tensor, "batch steps"],
    ) -> Float[Tensor, ""]:
        """-(R - b) log p(s), with log p(s_t) in `chosen` and log p(y_t | s) in `said`, both 0 at padding."""
        reward = reward_to_go(said) if self.to_go else said.sum(-1, keepdim=True).expand_as(said)
        baseline = 0.0
        if self.average is not None:
            baseline = self.average.value[: said.shape[-1]].clone()
            self.average.update(*self._seen(reward, real))
        return score_function_loss(chosen, reward, baseline)

    def _seen(self, reward: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """What the average is taken of: a column for each step, or all real rewards in one column."""
        if len(self.average.value) > 1:
            return reward, real
        return reward[real][:, None], real[real][:, None]


@contextmanager
def by_expectation(model: ShowAttendTell) -> Iterator[None]:
    """Within it, the model reads the mean of what it could choose."""
    choice, model.attention.choice = model.attention.choice, "expectation"
    try:
        yield
    finally:
        model.attention.choice = choice


def label_loss(annotator: CellAnnotator, batch: SceneBatch) -> Float[Tensor, ""]:
    """Cross-entropy of the ten yes-or-no answers: which digits does the image hold? No caption, no place."""
    return F.binary_cross_entropy_with_logits(annotator.label(batch.images), batch.present)


def label_annotator(
    corpus: SceneCorpus, *, steps: int = LABEL_STEPS, size: int = SIZE, seed: int = 0
) -> CellAnnotator:
    """A CNN trained on the labels of the training images, for `ShowAttendTell` to freeze."""
    torch.manual_seed(seed)
    annotator = CellAnnotator()
    batches = scene_batches(corpus.train, corpus.vocabulary, size, seed)
    train(annotator, label_loss, batches, steps=steps, seed=seed)
    return annotator


def captioner(
    corpus: SceneCorpus, annotator: CellAnnotator, system: str, *, seed: int = 0, **options
) -> ShowAttendTell:
    """A new model of one of the systems in `CHOICES`; all have the same parts, but for the score."""
    torch.manual_seed(seed)
    return untrained_captioner(corpus, annotator, system, **options)


def untrained_captioner(
    corpus: SceneCorpus, annotator: CellAnnotator, system: str, **options
) -> ShowAttendTell:
    """`captioner` from the random numbers that torch has now."""
    return ShowAttendTell(annotator, len(corpus.vocabulary), choice=CHOICES[system], **options)


def fit_captions(
    model: ShowAttendTell,
    corpus: SceneCorpus,
    loss: Callable | None = None,
    *,
    steps: int = STEPS,
    seed: int = 0,
    size: int = SIZE,
    evaluations: int = 5,
    **options,
) -> History:
    """Train on the scenes, keeping the weights that give the dev captions the highest probability.

    Args:
        model: from `captioner`.
        corpus: to learn from.
        loss: (model, batch) -> loss; by default `ReinforceLoss()` for sampled choices, else `caption_loss`.
        steps: updates in all.
        seed: of the order of the batches and of the choices.
        size: scenes in a batch.
        evaluations: how often the dev captions are looked at.
        options: passed on to `train`.

    Raises:
        ValueError: no dev scenes; or a checkpoint and a loss with a moving average, which it would not hold.
    """
    if not len(corpus.dev):
        raise ValueError("corpus has no dev scenes: the best weights cannot be chosen")
    if loss is None:
        sampled = model.attention is not None and model.attention.choice == "sample"
        loss = ReinforceLoss() if sampled else caption_loss
    if options.get("checkpoint") and getattr(loss, "average", None) is not None:
        raise ValueError("checkpoint does not hold the loss's moving average, so the run would go on with "
                         "another one: train in one go, or use ReinforceLoss(baseline=None)")
    dev = collate_scenes(corpus.dev, corpus.vocabulary)

    def dev_loss(model: ShowAttendTell) -> float:
        """Nats per caption; a hard choice is the arg max here."""
        return caption_loss(model, dev.to(next(model.parameters()).device)).item()

    options = {"clip": 5.0, "evaluate": dev_loss, "evaluate_every": max(1, steps // evaluations), **options}
    batches = scene_batches(corpus.train, corpus.vocabulary, size, seed)
    return train(model, loss, batches, steps=steps, seed=seed, **options)


def say(model: ShowAttendTell, corpus: SceneCorpus, scenes: Sequence[Scene]) -> list[list[str]]:
    """The model's own captions of the scenes, in words."""
    said = []
    for start in range(0, len(scenes), 100):
        images = torch.stack([scene.image for scene in scenes[start : start + 100]])
        said += [corpus.vocabulary.decode(found.tokens) for found in caption(model, images)]
    return said


def weights_at_words(
    model: ShowAttendTell, corpus: SceneCorpus, scenes: Sequence[Scene]
) -> list[Float[Tensor, "words cells"]]:
    """For each scene the weights with which the model reads for the words of the true caption."""
    place, found = next(model.parameters()).device, []
    model.eval()
    for start in range(0, len(scenes), 100):
        part = scenes[start : start + 100]
        batch = collate_scenes(part, corpus.vocabulary).to(place)
        with torch.no_grad():
            weights = model(batch.images, batch.target_in).weights.cpu()
        found += [row[: len(scene.caption)] for row, scene in zip(weights, part, strict=True)]
    return found


def caption_scores(model: ShowAttendTell, corpus: SceneCorpus, scenes: Sequence[Scene]) -> dict[str, float]:
    """Share of captions right in every word; with attention, its pointing accuracy and that of chance."""
    references = [scene.caption for scene in scenes]
    numbers = {"exact": round(1 - sequence_error_rate(say(model, corpus, scenes), references), 4)}
    if model.attention is not None:
        objects = [scene.cells(GRID) for scene in scenes]
        sizes = [len(cells) for words in objects for cells in words.values()]
        pointing = pointing_accuracy(weights_at_words(model, corpus, scenes), objects)
        numbers |= {"pointing": round(pointing, 4), "chance": round(sum(sizes) / len(sizes) / GRID**2, 4)}
    return numbers


def gradient_noise(
    model: ShowAttendTell, batch: SceneBatch, devices: dict[str, dict] = DEVICES, *, draws: int = DRAWS
) -> dict[str, dict[str, float]]:
    """How far the score term's gradient scatters over draws of the choices, on one model and one batch.

    For each row of devices: "variance", that of the gradient with respect to the attention's parameters,
    summed over them, and "signal to noise", the length of its mean over the square root of that. All rows
    see the same draws. The mean is the same for all, so it is taken from the row that scatters least.
    """
    losses = {name: ReinforceLoss(**options) for name, options in devices.items()}
    learned = list(model.attention.parameters())
    gradients = {name: [] for name in losses}
    real = batch.target_out != PAD
    model.train()
    for draw in range(-draws // 4, draws):  # first, the moving averages come to rest
        told = model(batch.images, batch.target_in)
        chosen = log_probability(told.alpha, told.weights) * real
        said = word_log_probabilities(told.logits, batch.target_out).detach()
        for name, loss in losses.items():
            term = loss.score_term(chosen, said, real)
            if draw >= 0:
                parts = torch.autograd.grad(term, learned, retain_graph=True)
                gradients[name].append(torch.cat([part.flatten() for part in parts]))
    spread = {name: torch.stack(found).var(0).sum().item() for name, found in gradients.items()}
    calmest = min(spread, key=spread.get)
    # The squared length of a mean of noise is not 0 but variance / draws: taken off.
    length = torch.stack(gradients[calmest]).mean(0).square().sum().item() - spread[calmest] / draws
    return {
        "variance": spread,
        "signal to noise": {name: (max(length, 0.0) / value) ** 0.5 for name, value in spread.items()},
    }
