"""Chapter 07's tables: what the scale does for training, what one head cannot do, which heads are needed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import Attended, DotScore, MultiHeadAttention, ScaledDotScore, attend
from attncourse.data import Corpus, Pair, collate, translation_corpus
from attncourse.data.pairs import Batch
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import bleu_by_group, fit, parameters, transformer
from attncourse.models import Maps, Transformer
from attncourse.training import History, token_loss, train

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


# --- Which heads are needed --------------------------------------------------------------------------------

HEADS, TRANSLATOR_STEPS, LEARNING_RATE = 8, 1_000, 2e-3
AT_A_TIME = 4  # heads that one round of the pruning removes
SENTENCE = "a sad house is loved by a quiet green teacher today"  # the one whose maps are kept


class Head(NamedTuple):
    """One head of a Transformer: inside the source, inside the target or between; layer and number from 0."""

    relation: str
    layer: int
    number: int


def attentions(model: Transformer) -> dict[tuple[str, int], MultiHeadAttention]:
    """Every attention of a Transformer by relation and layer."""
    found = {("source", i): layer.attention for i, layer in enumerate(model.encoder.layers)}
    for name, attribute in (("target", "inside"), ("between", "between")):
        found |= {(name, i): getattr(layer, attribute) for i, layer in enumerate(model.decoder)}
    return found


def heads_of(model: Transformer) -> list[Head]:
    """Every head of a Transformer."""
    return [Head(*place, number) for place, attention in attentions(model).items()
            for number in range(attention.heads)]


@contextmanager
def without(model: Transformer, heads: Sequence[Head]) -> Iterator[None]:
    """Within it, these heads are silent: their columns of W^O are 0 (Michel et al. 2019, section 2.3)."""
    modules = attentions(model)
    weights = {head: modules[head[:2]].output_projection.weight for head in heads}
    kept = {id(weight): (weight, weight.detach().clone()) for weight in weights.values()}
    try:
        with torch.no_grad():
            for head, weight in weights.items():
                width = modules[head[:2]].head_width
                weight[:, head.number * width : (head.number + 1) * width] = 0.0
        yield
    finally:
        with torch.no_grad():
            for weight, before in kept.values():
                weight.copy_(before)


def batched(corpus: Corpus, pairs: Sequence[Pair], size: int = 50) -> list[Batch]:
    """The pairs as batches of similar length."""
    pairs = sorted(pairs, key=lambda pair: len(pair.source))
    parts = (pairs[start : start + size] for start in range(0, len(pairs), size))
    return [collate(part, corpus.source_vocabulary, corpus.target_vocabulary) for part in parts]


@torch.no_grad()
def loss_on(model: Transformer, batches: Sequence[Batch]) -> float:
    """Nats per real target token, of a model in evaluation mode."""
    place, total = next(model.parameters()).device, sum(int(batch.target_lengths.sum()) for batch in batches)
    return sum(
        int(batch.target_lengths.sum()) * token_loss(model, batch.to(place)).item() for batch in batches
    ) / total


def damages(
    model: Transformer, batches: Sequence[Batch], heads: Sequence[Head], already: Sequence[Head] = ()
) -> dict[Head, float]:
    """By how much the loss rises when one more head is switched off, for each of `heads`."""
    with without(model, already):
        whole = loss_on(model, batches)
    found = {}
    for head in heads:
        with without(model, [*already, head]):
            found[head] = loss_on(model, batches) - whole
    return found


def pruning_order(model: Transformer, batches: Sequence[Batch], at_a_time: int = AT_A_TIME) -> list[Head]:
    """All heads, the least needed first: the cheapest are switched off, the others measured anew."""
    order, left = [], heads_of(model)
    while left:
        damage = damages(model, batches, left, order)
        order += sorted(left, key=damage.get)[:at_a_time]
        left = [head for head in left if head not in order]
    return order


# What a head is asked about: how much of its weight lies so many places from the query, or on the gold links.
OFFSETS = {"source": (-1, 0, 1), "target": (-2, -1, 0)}


@torch.no_grad()
def maps_of(model: Transformer, corpus: Corpus, pairs: Sequence[Pair]) -> list[Maps]:
    """Every weight with which a model reads each pair, cut to its real words; START is a target word."""
    place, found = next(model.parameters()).device, []
    model.eval()
    for start in range(0, len(pairs), 50):
        part = pairs[start : start + 50]
        batch = collate(part, corpus.source_vocabulary, corpus.target_vocabulary).to(place)
        maps = model.attention_maps(batch.source, batch.source_lengths, batch.target_in)
        for row, pair in enumerate(part):
            s, t = len(pair.source), len(pair.target) + 1
            source, target, between = (kind[row].cpu() for kind in maps)
            found.append(Maps(source[..., :s, :s], target[..., :t, :t], between[..., :t, :s]))
    return found


def readings(maps: Sequence[Maps], pairs: Sequence[Pair]) -> dict[Head, dict[str, float]]:
    """What share of its weight each head gives to what, in the mean over all queries that have it.

    Inside the source and inside the target: to the words at each offset in `OFFSETS`, 0 being the query's
    own. Between: to the gold links, the possible ones included, of the word that is about to be written.
    """
    sums: dict[tuple[str, str], list[Tensor]] = {}
    for kinds, pair in zip(maps, pairs, strict=True):
        for relation, offsets in OFFSETS.items():
            weights = getattr(kinds, relation)
            for offset in offsets:
                seen = weights.diagonal(offset, dim1=-2, dim2=-1)  # (layers, heads, queries that have it)
                sums.setdefault((relation, f"{offset:+d}" if offset else "0"), []).append(seen)
        if pair.alignment is not None:
            gold = torch.zeros(kinds.between.shape[-2:])
            for i, j in pair.alignment.possible:
                gold[j, i] = 1.0
            linked = gold.any(-1)
            on_gold = (kinds.between * gold).sum(-1)[..., linked]
            sums.setdefault(("between", "gold"), []).append(on_gold)
    found: dict[Head, dict[str, float]] = {}
    for (relation, name), parts in sums.items():
        for layer, row in enumerate(torch.cat(parts, -1).mean(-1).tolist()):
            for number, share in enumerate(row):
                found.setdefault(Head(relation, layer, number), {})[name] = round(share, 4)
    return found


def even_reading(pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """The `readings` of a head that reads all it may see evenly."""
    even = []
    for pair in pairs:
        s, t = len(pair.source), len(pair.target) + 1
        causal = torch.ones(t, t).tril()
        even.append(Maps(*(kind[None, None] for kind in (
            torch.full((s, s), 1 / s), causal / causal.sum(-1, keepdim=True), torch.full((t, s), 1 / s)
        ))))
    return {head.relation: shares for head, shares in readings(even, pairs).items()}


def bleu_of(model: Transformer, corpus: Corpus, pairs: Sequence[Pair]) -> float:
    """BLEU of the model's greedy translations."""
    return bleu_by_group(model, corpus, {"all": pairs})["all"]


def bleu_by_heads_left(
    model: Transformer, corpus: Corpus, pairs: Sequence[Pair], order: Sequence[Head], every: int = 4
) -> dict[str, float]:
    """BLEU with all heads, and with with fewer, switched off in this order: {"48": ..., "44": ..., ...}."""
    found = {}
    for gone in range(0, len(order) + 1, every):
        with without(model, order[:gone]):
            found[str(len(order) - gone)] = bleu_of(model, corpus, pairs)
    return found


def heads_pruned(system: str, seed: int) -> dict:
    """A trained translator; what its heads read, what each is worth, and what is left without the cheapest.

    What a head is worth is measured on dev pairs, what is left on test pairs. The list "heads" holds every
    head with its readings, the rise of the dev loss and the fall of BLEU when it alone is off; "maps" holds
    its weights on one sentence.
    """
    corpus = translation_corpus()
    torch.manual_seed(seed)
    model = transformer(corpus, heads=HEADS, dropout=0.0)
    started = time.process_time()
    history = fit(model, corpus, steps=TRANSLATOR_STEPS, seed=seed, learning_rate=LEARNING_RATE)
    seconds = time.process_time() - started
    return {
        "parameters": parameters(model),
        "processor seconds": round(seconds, 1),
        "dev loss": round(min(history.dev), 4),
        **heads_measured(model.eval(), corpus, dev=corpus.dev[:150], test=corpus.test[:200], seed=seed),
    }


def heads_measured(
    model: Transformer, corpus: Corpus, *, dev: Sequence[Pair], test: Sequence[Pair], seed: int
) -> dict:
    """All that `heads_pruned` says about the heads of a trained model."""
    heads, batches = heads_of(model), batched(corpus, dev)
    order = pruning_order(model, batches)
    shuffled = [order[i] for i in torch.randperm(len(order), generator=torch.Generator().manual_seed(seed))]
    found = {name: bleu_by_heads_left(model, corpus, test, row)
             for name, row in (("cheapest first", order), ("random order", shuffled))}
    whole = found["cheapest first"][str(len(heads))]
    damage, reads = damages(model, batches, heads), readings(maps_of(model, corpus, test), test)
    listed = []
    for head in heads:
        with without(model, [head]):
            loss = round(whole - bleu_of(model, corpus, test), 2)
        listed.append({"head": list(head), "reads": reads[head], "dev loss": round(damage[head], 4),
                       "bleu lost": loss, "switched off as": order.index(head) + 1})
    pair = next(p for p in corpus.test if " ".join(p.source) == SENTENCE)
    [maps] = maps_of(model, corpus, [pair])
    kinds = {name: kind.mul(1_000).round().int().tolist() for name, kind in maps._asdict().items()}
    return {**found, "heads": listed, "sentence": [list(pair.source), list(pair.target)], "maps": kinds}


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
    Experiment(
        "heads_pruned",
        f"Translation corpus, a Transformer of 2 layers of width 128 with {HEADS} heads in each of its 6 "
        f"attentions, {TRANSLATOR_STEPS:,} steps of 32 pairs; BLEU of greedy translations of 200 test pairs "
        f"with fewer and fewer heads. Cheapest first: {AT_A_TIME} at a time, those without which the loss on "
        "150 dev pairs rises least.",
        ("transformer",),
        SEEDS,
        heads_pruned,
    ),
]
