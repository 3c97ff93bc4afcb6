"""Chapter 07's tables: what the scale does for training, and what one head cannot do."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import Attended, DotScore, MultiHeadAttention, ScaledDotScore, attend
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import parameters
from attncourse.training import History, train

SEEDS = (0, 1, 2)

# --- With and without the square root ----------------------------------------------------------------------

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

    def to(self, device: torch.device | str) -> "Lists":
        """The same lists on another device."""
        return Lists(*(tensor.to(device) for tensor in self))


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


def lookup_loss(model: LookUp, lists: Lists) -> Float[Tensor, ""]:
    """Cross-entropy of the answer."""
    return F.cross_entropy(model(lists)[0], lists.answer)


class Drawn:
    """Batches drawn when they are asked for: `batches[step]` depends on seed and step, on nothing else."""

    def __init__(self, draw, size: int, seed: int):
        self.draw, self.size, self.seed = draw, size, seed

    def __getitem__(self, step: int) -> NamedTuple:
        return self.draw(self.size, torch.Generator().manual_seed(1_000_000 * (self.seed + 1) + step))


def lookup(system: str, seed: int) -> dict:
    """Share of right labels on 2,000 new lists, and the largest weight before and after the training."""
    score, width = system.split(", d = ")
    new = draw_lists(2_000, torch.Generator().manual_seed(999))
    torch.manual_seed(seed)
    with torch.no_grad():
        before = LookUp(SCORES[score](), int(width))(new)[1]
    model, _ = fit_lookup(score, int(width), seed=seed)
    with torch.no_grad():
        said, after = model.cpu()(new)
    return {
        "parameters": parameters(model),
        "accuracy": round((said.argmax(-1) == new.answer).float().mean().item(), 4),
        "largest weight": {
            name: round(weights.max(-1).values.mean().item(), 4)
            for name, weights in (("before", before), ("after", after))
        },
    }


# --- Two questions at once ---------------------------------------------------------------------------------

NOUNS = ("cat", "dog", "horse", "bird", "king", "queen", "child", "teacher")
BYSTANDER, DOER, DONE_TO = range(3)
CROWD = 6  # nouns in a sentence
# Heads, and the width they share: the last row has more of it, and one head.
TWO_HEADS = {"1 head": (1, 32), "2 heads": (2, 32), "4 heads": (4, 32), "1 head, twice as wide": (1, 64)}
ROLE_STEPS = 600


class Sentences(NamedTuple):
    """Who does it, and to whom? Nouns in free order; a role on each says doer, done-to or bystander.

    Shapes: nouns and roles (batch, crowd); answer (batch, 2), the doer and the one it is done to.
    """

    nouns: Int[Tensor, "batch crowd"]
    roles: Int[Tensor, "batch crowd"]
    answer: Int[Tensor, "batch 2"]

    def to(self, device: torch.device | str) -> "Sentences":
        """The same sentences on another device."""
        return Sentences(*(tensor.to(device) for tensor in self))


class WhoDoesWhat(nn.Module):
    """One verb reads the nouns once, and names the doer and the one it is done to.

    Keys are the roles, values the nouns: where to look does not depend on what is there. A linear layer on
    the attention's output gives both answers, and nothing else lies between.

    Args:
        heads: of the one attention.
        width: which the heads share.
    """

    def __init__(self, heads: int, width: int = 32):
        super().__init__()
        self.verb = nn.Parameter(torch.randn(1, 1, width))
        self.nouns, self.roles = nn.Embedding(len(NOUNS), width), nn.Embedding(3, width)
        self.attention = MultiHeadAttention(width, heads)
        self.answer = nn.Linear(width, 2 * len(NOUNS))

    def forward(self, sentences: Sentences) -> Attended:
        """The context holds the scores of each answer, (batch, 2, nouns); weights (batch, heads, crowd)."""
        verb = self.verb.expand(len(sentences.nouns), -1, -1)
        read = self.attention(verb, self.roles(sentences.roles), self.nouns(sentences.nouns))
        return Attended(self.answer(read.context).view(-1, 2, len(NOUNS)), read.weights.squeeze(-2))


def draw_sentences(count: int, generator: torch.Generator) -> Sentences:
    """New sentences: two different nouns are drawn, and each role takes one of the two.

    So in half of the sentences a noun does it to its like, and of the others every one has its mirror image.
    """
    nouns = torch.randint(len(NOUNS), (count, CROWD), generator=generator)
    two = torch.rand(count, len(NOUNS), generator=generator).argsort(-1)[:, :2]
    answer = two.gather(1, torch.randint(2, (count, 2), generator=generator))
    places = torch.rand(count, CROWD, generator=generator).argsort(-1)[:, :2]
    roles = torch.full((count, CROWD), BYSTANDER)
    roles.scatter_(1, places, torch.tensor([DOER, DONE_TO]).expand(count, 2))
    return Sentences(nouns.scatter(1, places, answer), roles, answer)


def four_versions(sentences: Sentences) -> Sentences:
    """Each sentence four times: doer and done-to being a a, a b, b a and b b, all else the same.

    Args:
        sentences: each with two different nouns, a and b, as doer and done-to.

    Returns:
        Those of the first sentence first.
    """
    a, b = sentences.answer.unbind(-1)
    versions = [torch.stack(pair, -1) for pair in ((a, a), (a, b), (b, a), (b, b))]
    answer = torch.stack(versions, 1).flatten(0, 1)
    nouns, roles = (part.repeat_interleave(4, 0) for part in (sentences.nouns, sentences.roles))
    for role, noun in ((DOER, 0), (DONE_TO, 1)):
        nouns = torch.where(roles == role, answer[:, noun, None], nouns)
    return Sentences(nouns, roles, answer)


def fit_roles(
    heads: int, width: int = 32, *, steps: int = ROLE_STEPS, seed: int = 0, **options
) -> tuple[WhoDoesWhat, History]:
    """A trained `WhoDoesWhat`, and its history; `options` are passed on to `train`."""
    torch.manual_seed(seed)
    model = WhoDoesWhat(heads, width)
    batches = Drawn(draw_sentences, 64, seed)
    return model, train(model, role_loss, batches, steps=steps, seed=seed, **options)


def role_loss(model: WhoDoesWhat, sentences: Sentences) -> Float[Tensor, ""]:
    """Cross-entropy of the two answers."""
    return F.cross_entropy(model(sentences).context.flatten(0, 1), sentences.answer.flatten())


def role_scores(model: WhoDoesWhat, count: int = 500) -> dict[str, float]:
    """Shares of new sentences, each in its four versions, with the right doer, done-to, and both.

    "mirrored" is the share of the mirror images a b and b a of which both are right in everything.
    """
    drawn = draw_sentences(4 * count, torch.Generator().manual_seed(999))
    different = drawn.answer[:, 0] != drawn.answer[:, 1]
    tried = four_versions(Sentences(*(part[different][:count] for part in drawn)))
    place = next(model.parameters()).device
    model.eval()
    with torch.no_grad():
        right = (model(tried.to(place)).context.argmax(-1).cpu() == tried.answer).float()
    both = right.prod(-1).view(-1, 4)
    numbers = {"doer": right[:, 0].mean(), "done-to": right[:, 1].mean(), "both": both.mean(),
               "mirrored": both[:, 1:3].prod(-1).mean()}
    return {name: round(value.item(), 4) for name, value in numbers.items()}


def two_heads(system: str, seed: int) -> dict:
    """Right answers of a trained model with so many heads."""
    model, history = fit_roles(*TWO_HEADS[system], seed=seed)
    return {"parameters": parameters(model), **role_scores(model), "loss": round(history.loss[-1], 4)}


EXPERIMENTS = [
    Experiment(
        "lookup",
        f"Find the asked one of {SHOWN} items and say its label, {LOOKUP_STEPS} steps of 32 lists; share of "
        f"right labels on 2,000 new lists (guessing: 1 in {LABELS}), and the mean of the largest weight.",
        tuple(f"{score}, d = {width}" for width in (16, 64, 256) for score in SCORES),
        SEEDS,
        lookup,
    ),
    Experiment(
        "two_heads",
        f"Who does it, and to whom: one attention and a linear layer, {ROLE_STEPS} steps of 64 sentences; "
        "shares of right answers on 500 new sentences, each with a a, a b, b a and b b as doer and done-to.",
        tuple(TWO_HEADS),
        SEEDS,
        two_heads,
    ),
]
