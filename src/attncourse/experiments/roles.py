"""Who does it, and to whom: two questions at once, which one head cannot answer."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import Attended, MultiHeadAttention
from attncourse.devices import to_device
from attncourse.experiments.lookup import Drawn
from attncourse.training import History, train

NOUNS = ("cat", "dog", "horse", "bird", "king", "queen", "child", "teacher")
BYSTANDER, DOER, DONE_TO = range(3)
CROWD = 6  # nouns in a sentence
ROLE_STEPS = 600


class Sentences(NamedTuple):
    """Who does it, and to whom? Nouns in free order; a role on each says doer, done-to or bystander.

    Shapes: nouns and roles (batch, crowd); answer (batch, 2), the doer and the one it is done to.
    """

    nouns: Int[Tensor, "batch crowd"]
    roles: Int[Tensor, "batch crowd"]
    answer: Int[Tensor, "batch 2"]

    to = to_device


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
    return right_roles(model, draw_pairs(count, 999))


def draw_pairs(count: int, seed: int) -> Sentences:
    """So many sentences in each of the `four_versions`."""
    drawn = draw_sentences(4 * count, torch.Generator().manual_seed(seed))
    different = drawn.answer[:, 0] != drawn.answer[:, 1]
    return four_versions(Sentences(*(part[different][:count] for part in drawn)))


def right_roles(model: WhoDoesWhat, tried: Sentences) -> dict[str, float]:
    """The `role_scores` of sentences from `draw_pairs`."""
    place = next(model.parameters()).device
    model.eval()
    with torch.no_grad():
        right = (model(tried.to(place)).context.argmax(-1).cpu() == tried.answer).float()
    both = right.prod(-1).view(-1, 4)
    numbers = {"doer": right[:, 0].mean(), "done-to": right[:, 1].mean(), "both": both.mean(),
               "mirrored": both[:, 1:3].prod(-1).mean()}
    return {name: round(value.item(), 4) for name, value in numbers.items()}
