"""Chapter 03: captions of digit scenes by four ways of looking, and the noise in the gradient of a choice."""

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
from attncourse.data import PAD, Scene, SceneBatches, collate_scenes, scene_corpus
from attncourse.data.scenes import SceneBatch, SceneCorpus
from attncourse.decoding import caption
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import parameters
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
LABEL_STEPS, STEPS, SIZE, GRID = 300, 1_000, 64, 8
LONGEST = 32  # steps that a baseline of its own is kept for


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
    """The loss of hard attention: minus the lower bound on log p(caption), its gradient by the score function.

    The gradient is that of eq. 12 with the devices of section 4.1: d log p(y | s) + lambda_r (R - b) d log p(s)
    + lambda_e d H[s]. The reward R of a step is the sum of log p(y_t), of the whole caption or `to_go`.

    Args:
        baseline: None; "average", one moving average; or "per step", one for each step.
        to_go: a choice is judged by the words from its step on only.
        weight: lambda_r.
        entropy_weight: lambda_e.
    """

    def __init__(
        self,
        baseline: str | None = "per step",
        to_go: bool = True,
        weight: float = 1.0,
        entropy_weight: float = 0.01,
    ):
        super().__init__()
        self.average = None if baseline is None else MovingAverage(1 if baseline == "average" else LONGEST)
        self.to_go, self.weight, self.entropy_weight = to_go, weight, entropy_weight

    def forward(self, model: ShowAttendTell, batch: SceneBatch) -> Float[Tensor, ""]:
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


def label_annotator(corpus: SceneCorpus, *, steps: int = LABEL_STEPS, seed: int = 0) -> CellAnnotator:
    """A CNN trained to tell which digits an image holds: no caption, no place."""

    def label_loss(model: CellAnnotator, batch: SceneBatch) -> Tensor:
        return F.binary_cross_entropy_with_logits(model.label(batch.images), batch.present)

    torch.manual_seed(seed)
    annotator = CellAnnotator()
    train(annotator, label_loss, SceneBatches(corpus.train, corpus.vocabulary, SIZE, seed), steps=steps, seed=seed)
    return annotator


def fit(
    model: ShowAttendTell, corpus: SceneCorpus, loss=caption_loss, *, steps: int = STEPS, seed: int = 0, **options
) -> History:
    """Train a model on the scenes, keeping the weights that give the dev captions the best probability."""
    dev = collate_scenes(corpus.dev, corpus.vocabulary)

    def dev_loss(model: ShowAttendTell) -> float:
        return caption_loss(model, dev.to(next(model.parameters()).device)).item()

    batches = SceneBatches(corpus.train, corpus.vocabulary, SIZE, seed)
    options = {"clip": 5.0, **options}
    return train(
        model, loss, batches, steps=steps, seed=seed, evaluate=dev_loss, evaluate_every=max(1, steps // 5), **options
    )


def teacher_forced_weights(
    model: ShowAttendTell, corpus: SceneCorpus, scenes: list[Scene]
) -> list[Float[Tensor, "words cells"]]:
    """For each scene the weights with which the model, in evaluation mode, reads for the words of the caption."""
    place, found = next(model.parameters()).device, []
    model.eval()
    for start in range(0, len(scenes), 100):
        part = scenes[start : start + 100]
        batch = collate_scenes(part, corpus.vocabulary).to(place)
        with torch.no_grad():
            weights = model(batch.images, batch.target_in).weights.cpu()
        found += [row[: len(scene.caption)] for row, scene in zip(weights, part, strict=True)]
    return found


def scores(model: ShowAttendTell, corpus: SceneCorpus, scenes: list[Scene]) -> dict[str, float]:
    """Share of captions that are right in every word; pointing accuracy of the model, and of blind guessing."""
    said = []
    for start in range(0, len(scenes), 100):
        images = torch.stack([scene.image for scene in scenes[start : start + 100]])
        said += [corpus.vocabulary.decode(found.tokens) for found in caption(model, images)]
    numbers = {"exact": round(1 - sequence_error_rate(said, [scene.caption for scene in scenes]), 4)}
    if model.attention is not None:
        objects = [scene.cells(GRID) for scene in scenes]
        sizes = [len(cells) for named in objects for cells in named.values()]
        numbers["pointing"] = round(
            pointing_accuracy(teacher_forced_weights(model, corpus, scenes), objects), 4
        )
        numbers["chance"] = round(sum(sizes) / len(sizes) / GRID**2, 4)
    return numbers
