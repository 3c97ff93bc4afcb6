"""Find the asked item among the keys: what the scale does for training, and what linear attention pays."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import DotScore, LinearScore, ScaledDotScore, attend
from attncourse.devices import to_device
from attncourse.training import History, train

SCORES = {"dot": DotScore, "scaled dot": ScaledDotScore}
ITEMS, SHOWN, LABELS = 64, 16, 8  # items there are, items in one list, labels an item may carry
LOOKUP_STEPS = 300


class Lists(NamedTuple):
    """Lists of different items, each with a label; one of the items is asked for, and `answer` is its label.

    Shapes: items and labels (batch, shown), asked and answer (batch,).
    """

    items: Int[Tensor, "batch shown"]
    labels: Int[Tensor, "batch shown"]
    asked: Int[Tensor, "batch"]
    answer: Int[Tensor, "batch"]

    to = to_device


class LookUp(nn.Module):
    """Find the asked item among the keys and say its label: one attention, its projections to be learned.

    The items' vectors are drawn once and stay. Their numbers have variance 1, and so have those of queries
    and keys at the start.

    Args:
        score: of query and key.
        width: d, of both.
    """

    def __init__(self, score: nn.Module, width: int):
        super().__init__()
        self.register_buffer("items", torch.randn(ITEMS, width))
        self.query_projection = nn.Linear(width, width)  # W^Q
        self.key_projection = nn.Linear(width, width)    # W^K
        for projection in (self.query_projection, self.key_projection):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)
        self.score, self.labels, self.answer = score, nn.Embedding(LABELS, 32), nn.Linear(32, LABELS)

    def forward(self, lists: Lists) -> tuple[Float[Tensor, "batch labels"], Float[Tensor, "batch shown"]]:
        query = self.query_projection(self.items)[lists.asked].unsqueeze(1)
        key = self.key_projection(self.items)[lists.items]
        read = attend(query, key, self.labels(lists.labels), score=self.score)
        return self.answer(read.context.squeeze(1)), read.weights.squeeze(1)


def draw_lists(count: int, generator: torch.Generator) -> Lists:
    """New lists of 16 items out of 64, with labels drawn anew."""
    items = torch.rand(count, ITEMS, generator=generator).argsort(-1)[:, :SHOWN]
    labels = torch.randint(LABELS, (count, SHOWN), generator=generator)
    place = torch.randint(SHOWN, (count, 1), generator=generator)
    return Lists(items, labels, items.gather(1, place).squeeze(1), labels.gather(1, place).squeeze(1))


def fit_lookup(score: str, width: int, *, steps: int = LOOKUP_STEPS, seed: int = 0) -> tuple[LookUp, History]:
    """A trained `LookUp` with one of the scores in `SCORES`, and its history."""
    torch.manual_seed(seed)
    model = LookUp(SCORES[score](), width)
    return model, train(model, lookup_loss, Drawn(draw_lists, 32, seed), steps=steps, seed=seed)


@torch.no_grad()
def found_in(model: LookUp, lists: Lists) -> dict[str, float]:
    """Share of right labels, and the mean of the largest weight."""
    said, _ = model.cpu()(lists)
    right = (said.argmax(-1) == lists.answer).float().mean().item()
    return {"accuracy": round(right, 4), "largest weight": largest_weight(model, lists)}


@torch.no_grad()
def largest_weight(model: LookUp, lists: Lists) -> float:
    """The mean of the largest weight."""
    return round(model.cpu()(lists)[1].max(-1).values.mean().item(), 4)


def lookup_loss(model: LookUp, lists: Lists) -> Float[Tensor, ""]:
    """Cross-entropy of the answer."""
    return F.cross_entropy(model(lists)[0], lists.answer)


class Drawn:
    """Batches drawn when they are asked for: `batches[step]` depends on seed and step, on nothing else."""

    def __init__(self, draw, size: int, seed: int):
        self.draw, self.size, self.seed = draw, size, seed

    def __getitem__(self, step: int) -> NamedTuple:
        return self.draw(self.size, torch.Generator().manual_seed(1_000_000 * (self.seed + 1) + step))


# --- With a softmax, and with a linear score --------------------------------------------------------------

LOOKED_UP_BY = {"softmax": ScaledDotScore, "linear": LinearScore}
LINEAR_STEPS = 600


def fit_linear_lookup(
    kind: str, width: int, *, steps: int = LINEAR_STEPS, seed: int = 0, **options
) -> tuple[LookUp, History]:
    """A trained `LookUp` with one of `LOOKED_UP_BY`, and its history; `options` are passed on to `train`."""
    torch.manual_seed(seed)
    model = LookUp(LOOKED_UP_BY[kind](), width)
    history = train(model, lookup_loss, Drawn(draw_lists, 32, seed), steps=steps, seed=seed, **options)
    return model, history


def found_again(model: LookUp, count: int = 2_000) -> dict[str, float]:
    """`found_in` new lists."""
    return found_in(model, draw_lists(count, torch.Generator().manual_seed(999)))
