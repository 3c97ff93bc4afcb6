"""What the heads of a real pretrained encoder read, on stored sentences and on the reader's own.

The encoder is an optional extra. So the weights for `SENTENCES` are stored, and what the heads do on average
(`head_table`) is stored too; only a sentence of the reader's needs the encoder itself.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.attention import entropy
from attncourse.data import Corpus, Pair
from attncourse.experiments.results import load_results
from attncourse.models.pretrained import PretrainedEncoder, SentenceHeads

SYSTEM = "all-MiniLM-L6-v2"
# What does "it" stand for? One word decides. And brackets, with two phrases that hang on a noun.
SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "The old man (a retired teacher) reads the book his daughter wrote.",
)
FIRST, LAST = "[CLS]", "[SEP]"
# From which share on a head is named after what it does (see `head_names`).
NAMED, SINK, BROAD = 0.25, 0.5, 0.8


def pretrained_heads(text: str) -> SentenceHeads:
    """The tokens of a text, and who read whom in every head.

    One of `SENTENCES` is looked up, to three decimals, so that every machine shows the same.

    Raises:
        ImportError: another text, and the encoder is not installed; the message says what to type.
        ValueError: an empty text, or one that is too long.
    """
    if text in SENTENCES:
        examples = load_results("pretrained_heads").content["runs"][0]["examples"]
        return next(unpacked(example) for example in examples if example["text"] == text)
    return _encoder().heads_of(text)


@lru_cache(maxsize=1)
def _encoder() -> PretrainedEncoder:
    return PretrainedEncoder.load()


def patterns(tokens: Sequence[str]) -> dict[str, Bool[Tensor, "tokens tokens"]]:
    """What a head might do: for each pattern, True where it would have a word (row) read a token (column).

    A row without True has nothing to read by that pattern: the first word has no previous one. [CLS] and
    [SEP] are no words, so their rows are empty.
    """
    place = torch.arange(len(tokens))
    offset = place - place[:, None]
    word = torch.tensor([token not in (FIRST, LAST) for token in tokens], dtype=torch.bool)
    words = word[:, None] & word

    def reads(what: str) -> Tensor:
        return torch.tensor([token == what for token in tokens], dtype=torch.bool)

    same = torch.stack([reads(token) for token in tokens]) if tokens else words

    return {
        "previous word": words & (offset == -1),
        "next word": words & (offset == 1),
        "itself": words & (offset == 0),
        "its repetition": words & same & (offset != 0),
        "full stop": words & reads(".") & (offset != 0),
        FIRST: word[:, None] & reads(FIRST),
        LAST: word[:, None] & reads(LAST),
    }


def describe_heads(sentences: Sequence[SentenceHeads]) -> dict[str, Float[Tensor, "layers heads"]]:
    """How much of a word's weight goes where each of the `patterns` says, by layer and head.

    The mean is over all words that have something to read by the pattern; a pattern that no word has is left
    out. Under "spread" stands the entropy of a word's weights as a share of the largest there is,
    log(tokens): 0 reads one token, 1 reads all alike. Clark et al. 2019, section 3, measure BERT in this way.

    Raises:
        ValueError: no sentences.
    """
    if not sentences:
        raise ValueError("sentences is empty: give at least one")
    found = {}
    for tokens, weights in sentences:
        by_pattern = patterns(tokens)
        for name, pattern in by_pattern.items():
            found.setdefault(name, []).append((weights * pattern).sum(-1)[..., pattern.any(-1)])
        spread = entropy(weights) / math.log(len(tokens))
        found.setdefault("spread", []).append(spread[..., by_pattern["itself"].any(-1)])
    shares = {name: torch.cat(parts, dim=-1) for name, parts in found.items()}
    return {name: share.mean(-1) for name, share in shares.items() if share.shape[-1]}


def head_table() -> dict[str, Float[Tensor, "layers heads"]]:
    """What `describe_heads` found on the stored run's sentences, to three decimals."""
    run = load_results("pretrained_heads").content["runs"][0]
    return {
        name: torch.tensor(list(run[name].values())).view(run["layers"], run["heads"])
        for name in (*patterns([]), "spread")
    }


def head_names(table: Mapping[str, Float[Tensor, "layers heads"]]) -> dict[tuple[int, int], str]:
    """A name for each head that has one, {(layer, head): "previous word"}, counted from 0.

    A head is named after the pattern between words that takes most of a word's weight, if that is a quarter;
    else [CLS] or [SEP], if it takes half; else "broad", if the spread is 0.8. The others do something that
    is not in the table.
    """
    names = {}
    layers, heads = table["spread"].shape
    for layer, head in itertools.product(range(layers), range(heads)):
        shares = {name: float(part[layer, head]) for name, part in table.items()}
        most = max(shares.keys() - {FIRST, LAST, "spread"}, key=shares.get)
        sink = max((FIRST, LAST), key=shares.get)
        if shares[most] >= NAMED:
            names[layer, head] = most
        elif shares[sink] >= SINK:
            names[layer, head] = sink
        elif shares["spread"] >= BROAD:
            names[layer, head] = "broad"
    return names


def packed(text: str, heads: SentenceHeads) -> dict:
    """A sentence's weights for a JSON file: one line of thousandths for each head, "|" between its rows."""
    thousandths = (heads.weights * 1000).round().int().tolist()
    lines = [["|".join(" ".join(map(str, row)) for row in head) for head in layer] for layer in thousandths]
    return {"text": text, "tokens": heads.tokens, "weights": lines}


def unpacked(stored: Mapping) -> SentenceHeads:
    """What `packed` wrote, as weights again."""
    weights = [
        [[list(map(int, row.split())) for row in head.split("|")] for head in layer]
        for layer in stored["weights"]
    ]
    return SentenceHeads(list(stored["tokens"]), torch.tensor(weights) / 1000)


def read_by_the_encoder(_model: None, _corpus: Corpus, pairs: Sequence[Pair]) -> dict:
    """The share of each pattern by head ("layer.head", counted from 1), and the weights for `SENTENCES`."""
    encoder = _encoder()
    table = describe_heads([encoder.heads_of(" ".join(pair.source) + ".") for pair in pairs])
    layers, heads = table["spread"].shape
    names = [f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]
    rounded = {name: [round(share, 3) for share in part.flatten().tolist()] for name, part in table.items()}
    return {
        "parameters": sum(parameter.numel() for parameter in encoder.model.parameters()),
        "layers": layers,
        "heads": heads,
        **{name: dict(zip(names, shares, strict=True)) for name, shares in rounded.items()},
        "examples": [packed(text, encoder.heads_of(text)) for text in SENTENCES],
    }
