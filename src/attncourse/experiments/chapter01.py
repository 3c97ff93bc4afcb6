"""Chapter 01: what a larger state, another context or a reversed source change; how much is copied."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.data import Corpus, Pair, collate, copying_corpus, translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    bleu_by_group,
    fit,
    fixed_context,
    parameters,
    sentences_by_length,
    translate_pairs,
)

STEPS = 1_200
CONTEXTS = {
    "last state, 64": {"hidden": 64},
    "last state, 128": {"hidden": 128},
    "last state, 256": {"hidden": 256},
    "mapped, 128": {"hidden": 128, "context": "mapped"},
    "mean, 128": {"hidden": 128, "context": "mean"},
    "max, 128": {"hidden": 128, "context": "max"},
    "last state, 128, reversed": {"hidden": 128, "reverse": True},
}
COPY_STEPS, COPY_STATES, ALPHABET, LONGEST = 2_000, (8, 16, 32, 64), 16, 20


def bottleneck(system: str, seed: int) -> dict:
    """BLEU by sentence length for one size and kind of context."""
    corpus = translation_corpus()
    torch.manual_seed(seed)
    model = fixed_context(corpus, **CONTEXTS[system])
    fit(model, corpus, steps=STEPS, seed=seed)
    scores = bleu_by_group(model, corpus, sentences_by_length(corpus, 100))
    return {"parameters": parameters(model), "bleu": scores}


def copied(hidden: int, seed: int = 0, *, steps: int = COPY_STEPS, longest: int = LONGEST) -> dict:
    """Train a context of `hidden` numbers to copy random strings; the share of symbols right by length."""
    corpus = copying_corpus(ALPHABET, longest, test=50)
    torch.manual_seed(seed)
    model = fixed_context(corpus, hidden=hidden, embedding=16)
    fit(model, corpus, steps=steps, seed=seed, size=64)
    right = {}
    for length in range(1, longest + 1):
        pairs = [pair for pair in corpus.test if len(pair.source) == length]
        said = translate_pairs(model, corpus, pairs)
        matches = sum(
            a == b
            for t, pair in zip(said, pairs, strict=True)
            for a, b in zip(t.tokens, pair.target, strict=False)  # a copy may come out too short, or too long
        )
        right[str(length)] = round(matches / (length * len(pairs)), 4)
    return {"parameters": parameters(model), "symbols right": right}


def passing(right: dict[str, float], share: float = 0.9) -> int:
    """How many symbols pass: the length up to which at least `share` of them come out right; 0 if none."""
    passed = 0
    for length in sorted(right, key=int):
        if right[length] < share:
            break
        passed = int(length)
    return passed


def influence(model: nn.Module, corpus: Corpus, pair: Pair) -> Float[Tensor, "target source"]:
    """How far the log-probability of each target word hangs on each source word, as shares: a row sums to 1.

    The size of its gradient with respect to the source word's vector (Simonyan et al. 2014, section 3),
    divided by the sum of the row. END has the last row. For every model with a `source_embedding`.

    Raises:
        ValueError: a pair without source words.
    """
    if not pair.source:
        raise ValueError("pair has no source words: there is nothing that could have influence")
    batch = collate([pair], corpus.source_vocabulary, corpus.target_vocabulary)
    batch = batch.to(next(model.parameters()).device)
    vectors = []
    hook = model.source_embedding.register_forward_hook(lambda module, ids, found: vectors.append(found))
    model.eval()
    try:
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN: no gradient in eval
            logits = model(batch.source, batch.source_lengths, batch.target_in).logits[0]
            chosen = logits.log_softmax(-1).gather(1, batch.target_out.T).squeeze(1)
            sizes = [
                torch.autograd.grad(one, vectors[0], retain_graph=True)[0][0].norm(dim=-1) for one in chosen
            ]
    finally:
        hook.remove()
    rows = torch.stack(sizes).cpu()
    return rows / rows.sum(-1, keepdim=True)


EXPERIMENTS = [
    Experiment(
        "bottleneck",
        f"Fixed-context translators on the translation corpus, {STEPS} steps of 32 pairs, greedy decoding; "
        "BLEU on 100 new sentences of each length.",
        tuple(CONTEXTS),
        (0, 1, 2),
        bottleneck,
    ),
    Experiment(
        "copying",
        f"Copying strings of 1 to {LONGEST} symbols out of {ALPHABET} through a fixed context, {COPY_STEPS} "
        "steps of 64 strings; share of symbols right at each length, 50 strings each.",
        tuple(f"{size} numbers" for size in COPY_STATES),
        (0, 1, 2),
        lambda system, seed: copied(int(system.split()[0]), seed),
    ),
]
