"""What the heads of a trained Transformer read, and which of them are needed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.attention import MultiHeadAttention
from attncourse.data import Corpus, Pair, collate
from attncourse.data.pairs import Batch
from attncourse.experiments.sequences import bleu_by_group, loss_on
from attncourse.models import Maps, Transformer

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


def heads_measured(
    model: Transformer, corpus: Corpus, *, dev: Sequence[Pair], test: Sequence[Pair], seed: int
) -> dict:
    """What the heads of a trained model read, what each is worth, and what is left without the cheapest.

    What a head is worth is measured on dev pairs, what is left on test pairs. The list "heads" holds every
    head with its readings, the rise of the dev loss and the fall of BLEU when it alone is off; "maps" holds
    its weights on one sentence.
    """
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
