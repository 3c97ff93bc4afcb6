"""Tables of tasks whose items are drawn on demand: look-ups, two questions at once, hands of cards."""

from dataclasses import replace
from functools import partial

import torch
from torch import nn

from attncourse.experiments.declarations import Experiment, Measure, Row, Training, run_row
from attncourse.experiments.longer_inputs import (
    FEWEST,
    MIXINGS,
    MOST,
    NUMBERS,
    RATE,
    SIZE,
    STEPS,
    CardBatches,
    CardReader,
    card_loss,
    cards_right,
    draw_cards,
)
from attncourse.experiments.lookup import (
    LABELS,
    LINEAR_STEPS,
    LOOKED_UP_BY,
    LOOKUP_STEPS,
    SCORES,
    SHOWN,
    Drawn,
    Lists,
    LookUp,
    draw_lists,
    found_in,
    largest_weight,
    lookup_loss,
)
from attncourse.experiments.rates import Cosine
from attncourse.experiments.roles import (
    ROLE_STEPS,
    WhoDoesWhat,
    draw_pairs,
    draw_sentences,
    right_roles,
    role_loss,
)
from attncourse.experiments.sequences import parameters
from attncourse.training import History, train

NEW = 999  # the seed of what is drawn to measure on: no training has it


def new_lists(_corpus: None) -> Lists:
    """Lists that no training run draws."""
    return draw_lists(2_000, torch.Generator().manual_seed(NEW))


def fit_drawn(model: nn.Module, _corpus: None, training: Training, seed: int, *, loss, draw) -> History:
    """Train on batches that are drawn on demand."""
    return train(model, loss, Drawn(draw, training.size, seed), seed=seed, **training.options())


# --- With and without the square root; softmax and linear --------------------------------------------------


def looker_up(_corpus: None, score: type[nn.Module], width: int) -> LookUp:
    """An untrained `LookUp`."""
    return LookUp(score(), width)


def run_lookup(row: Row, seed: int) -> dict:
    """`run_row`, and the largest weight before the training too."""
    before = largest_weight(row.model(None, seed), new_lists(None))
    numbers = run_row(row, seed)
    numbers["largest weight"] = {"before": before, "after": numbers["largest weight"]}
    return numbers


FOUND = Measure(
    f"share of right labels (guessing: 1 in {LABELS}), and the mean of the largest weight",
    lambda model, _corpus, lists: found_in(model, lists), "2,000 new lists", new=new_lists,
)
LOOKER_UP = Row(
    "", build=looker_up, fit=partial(fit_drawn, loss=lookup_loss, draw=draw_lists),
    trainings=(Training(LOOKUP_STEPS, 32),), measures=(FOUND,),
)
LOOKUP = Experiment(
    "lookup",
    f"Find the asked one of {SHOWN} items and say its label.",
    [replace(LOOKER_UP, name=f"{name}, d = {width}", options={"score": score, "width": width}, run=run_lookup)
     for width in (16, 64, 256) for name, score in SCORES.items()],
)
LINEAR_LOOKUP = Experiment(
    "linear_lookup",
    f"Find the asked one of {SHOWN} items and say its label.",
    [replace(LOOKER_UP, name=f"{name}, d = {width}", options={"score": score, "width": width},
             trainings=(Training(LINEAR_STEPS, 32),))
     for width in (8, 16, 32, 64) for name, score in LOOKED_UP_BY.items()],
)

# --- Two questions at once ---------------------------------------------------------------------------------

# Heads, and the width they share: the last row has more of it, and one head.
HEADS = {"1 head": (1, 32), "2 heads": (2, 32), "4 heads": (4, 32), "1 head, twice as wide": (1, 64)}


def who_does_what(_corpus: None, heads: int, width: int) -> WhoDoesWhat:
    """An untrained `WhoDoesWhat`."""
    return WhoDoesWhat(heads, width)


TWO_HEADS = Experiment(
    "two_heads",
    "Who does it, and to whom: one attention and a linear layer.",
    [Row(name, build=who_does_what, options={"heads": heads, "width": width},
         fit=partial(fit_drawn, loss=role_loss, draw=draw_sentences), trainings=(Training(ROLE_STEPS, 64),),
         measures=(Measure("shares of right answers", lambda model, _corpus, drawn: right_roles(model, drawn),
                           "500 new sentences, each with a a, a b, b a and b b as doer and done-to",
                           new=lambda _corpus: draw_pairs(500, NEW)),))
     for name, (heads, width) in HEADS.items()],
)

# --- Hands of cards ----------------------------------------------------------------------------------------


def card_reader(_corpus: None, mixing: str) -> CardReader:
    """An untrained `CardReader`."""
    return CardReader(mixing)


def fit_reader(model: CardReader, _corpus: None, training: Training, seed: int) -> History:
    """Train on hands of cards."""
    return train(model, card_loss, CardBatches(training.size, seed), seed=seed, **training.options())


def new_hands(_corpus: None) -> dict:
    """Hands as long as in training and longer, which no training run draws."""
    return {str(cards): draw_cards(2_000, cards, seed=-cards) for cards in (4, 8, 16, 32)}


def read_hands(model: CardReader, _corpus: None, hands: dict) -> dict:
    """The share of right answers for each length of hand, and what lies between positions."""
    return {
        "parameters between positions": parameters(model.fixed) if model.fixed is not None else 0,
        "right": {length: round(cards_right(model, drawn), 4) for length, drawn in hands.items()},
    }


LONGER_INPUTS = Experiment(
    "longer_inputs",
    f"The number of the card of the colour asked for, in hands of {FEWEST} to {MOST} cards in training. "
    f"Chance is 1/{NUMBERS}.",
    [Row(mixing, build=card_reader, options={"mixing": mixing}, fit=fit_reader,
         trainings=(Training(STEPS, SIZE, Cosine(RATE)),),
         measures=(Measure("share of right answers", read_hands, "2,000 new hands of each length",
                           new=new_hands),))
     for mixing in MIXINGS],
)

EXPERIMENTS = [LONGER_INPUTS, LOOKUP, TWO_HEADS, LINEAR_LOOKUP]
