"""Weights that are learned and fixed, against weights made from the input, on longer inputs.

The task is a hand of cards. The first position asks for a colour, one of the cards behind it has that colour,
and the answer is the number on that card. It may lie anywhere, so a position says nothing.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import ScaledDotScore, attend
from attncourse.devices import to_device
from attncourse.training import train

COLOURS = ("red", "green", "blue", "yellow", "black", "white", "brown", "pink")
NUMBERS = 8
FEWEST, MOST = 4, 8  # cards in training
STEPS, SIZE, RATE = 3_000, 64, 6e-3
MIXINGS = ("self-attention", "fully connected", "mean")


class Cards(NamedTuple):
    """Hands of cards as ids, the question first, and their answers."""

    ids: Int64[Tensor, "batch positions"]
    answers: Int64[Tensor, " batch"]

    to = to_device


def draw_cards(count: int, cards: int, seed: int) -> Cards:
    """`count` hands of `cards` cards; another seed, other hands.

    Raises:
        ValueError: fewer than one hand or card.
    """
    if count < 1 or cards < 1:
        raise ValueError(f"count is {count} and cards is {cards}: each must be at least 1")
    draw = torch.Generator().manual_seed(seed)

    def numbers(below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=draw)

    asked = numbers(len(COLOURS), count)
    # 1 to 7 colours further round the circle: never the one that is asked for ...
    colours = (asked[:, None] + 1 + numbers(len(COLOURS) - 1, count, cards)) % len(COLOURS)
    values, place = numbers(NUMBERS, count, cards), numbers(cards, count)
    rows = torch.arange(count)
    colours[rows, place] = asked  # ... but in one place
    question = NUMBERS * len(COLOURS) + asked
    return Cards(torch.cat([question[:, None], NUMBERS * colours + values], dim=1), values[rows, place])


def say_cards(ids: Int64[Tensor, "positions"]) -> list[str]:
    """A hand in words: ["green?", "red 3", "green 5", ...]."""
    words = [f"{colour} {number}" for colour in COLOURS for number in range(NUMBERS)]
    words += [f"{colour}?" for colour in COLOURS]
    return [words[i] for i in ids.tolist()]


class CardBatches:
    """Batches of hands of 4 to 8 cards; `batches[step]` depends on the seed and the step alone."""

    def __init__(self, size: int = SIZE, seed: int = 0):
        self.size, self.seed = size, seed

    def __getitem__(self, step: int) -> Cards:
        return draw_cards(self.size, FEWEST + step % (MOST - FEWEST + 1), 1_000_003 * self.seed + step)


class FullyConnected(nn.Module):
    """One output of a fully connected layer, y = sum_j W_j x_j + b: a matrix W_j for each position.

    The matrices are learned, and the same for every input. A shorter input leaves the last ones unused. Of a
    longer one, the positions beyond `length` have no matrix and are not read. A layer with an output at every
    position has `length` times as many parameters.

    Args:
        length: number of positions that have a matrix.
        width: of a vector, in and out.
    """

    def __init__(self, length: int, width: int):
        super().__init__()
        self.length = length
        self.weights = nn.Linear(length * width, width)

    def forward(self, x: Float[Tensor, "batch positions width"]) -> Float[Tensor, "batch width"]:
        read = x[:, : self.length]
        return self.weights(F.pad(read, (0, 0, 0, self.length - read.shape[1])).flatten(1))


class CardReader(nn.Module):
    """Embeds a hand, mixes its positions, and answers from what the question got.

    - "self-attention": query = key = value = the embedded cards; no parameters between positions.
    - "fully connected": a learned matrix for each position.
    - "mean": one fixed weight for all positions, which fits any length.

    Raises:
        ValueError: another mixing.
    """

    def __init__(self, mixing: str, width: int = 32):
        super().__init__()
        if mixing not in MIXINGS:
            raise ValueError(f"mixing is {mixing!r}: choose one of {', '.join(MIXINGS)}")
        self.mixing = mixing
        self.embedding = nn.Embedding((NUMBERS + 1) * len(COLOURS), width)
        # A long vector matches itself best of all: the question would read nothing else, and not learn.
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.fixed = FullyConnected(1 + MOST, width) if mixing == "fully connected" else None
        self.answer = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, NUMBERS))

    def forward(self, ids: Int64[Tensor, "batch positions"]) -> Float[Tensor, "batch numbers"]:
        x = self.embedding(ids)
        if self.mixing == "self-attention":
            y = attend(x, x, x, score=ScaledDotScore()).context[:, 0]
        else:
            y = self.fixed(x) if self.fixed is not None else x.mean(1)
        return self.answer(torch.cat([x[:, 0], y], dim=-1))


def card_loss(model: CardReader, batch: Cards) -> Float[Tensor, ""]:
    """-log p(number), mean over the batch."""
    return F.cross_entropy(model(batch.ids).float(), batch.answers)


def fit_cards(mixing: str, *, seed: int = 0, steps: int = STEPS, **options) -> CardReader:
    """A reader trained on hands of 4 to 8 cards; `options` are passed on to `train`."""
    torch.manual_seed(seed)
    model = CardReader(mixing)
    train(model, card_loss, CardBatches(seed=seed), steps=steps, learning_rate=RATE, seed=seed, **options)
    return model


def card_accuracy(model: CardReader, cards: int, count: int = 2_000) -> float:
    """The share of right answers on hands of so many cards, which no training run draws."""
    return cards_right(model, draw_cards(count, cards, seed=-cards))


@torch.no_grad()
def cards_right(model: CardReader, hands: Cards) -> float:
    """The share of right answers."""
    hands = hands.to(next(model.parameters()).device)
    return (model(hands.ids).argmax(-1) == hands.answers).float().mean().item()
