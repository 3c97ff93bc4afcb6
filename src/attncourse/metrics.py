"""How good is it? Translations, spellings, alignments and probabilities, each against the truth.

Texts are given as tokens. Where several references are allowed, those of one sentence are a list of them;
a single one may be given bare. Rates are shares, 0.25 and not 25; BLEU alone runs from 0 to 100, as it is
always quoted.
"""

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import torch
from jaxtyping import Float
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics import BLEU
from torch import Tensor

from attncourse.boxes import Detections, Objects, box_iou, to_corners
from attncourse.data.pairs import Alignment

Link = tuple[int, int]  # (source index, target index)
Tokens = Sequence[Hashable]


class Bleu(NamedTuple):
    """A BLEU score, 0 to 100, and the settings without which the number means nothing."""

    score: float
    signature: str


def corpus_bleu(
    hypotheses: Sequence[Sequence[str] | str],
    references: Sequence[Sequence],
    *,
    tokenize: str = "none",
    lowercase: bool = False,
    effective_order: bool = False,
) -> Bleu:
    """BLEU of a whole corpus (Papineni et al. 2002), counted by sacrebleu.

    Args:
        hypotheses: one per sentence, each a list of tokens (joined by spaces) or a string.
        references: for each sentence one reference, of the same kind as its hypothesis, or a list of them.
        tokenize: sacrebleu's tokenizer: "none" for tokens that are already right, "13a" for plain text,
            "zh" for Chinese.
        lowercase: compare without regard to case.
        effective_order: leave out the n-grams that no hypothesis is long enough to have. Such a score is
            not comparable with the usual one; the signature says so (`eff:yes`).

    Warns:
        UserWarning: if the score is 0 only because no hypothesis has four tokens.

    Raises:
        ValueError: no sentences, unequal numbers, a sentence without reference, an unknown tokenizer.

    >>> round(corpus_bleu(["the cat sat on"], ["the cat sat on the mat"]).score, 2)
    60.65
    """
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize {tokenize!r}: choose one of {', '.join(BLEU.TOKENIZERS)}")
    _check_numbers(hypotheses, references)
    texts, accepted = [], []
    for index, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        if isinstance(hypothesis, str):
            texts.append(hypothesis)
            accepted.append([reference] if isinstance(reference, str) else list(reference))
        else:
            texts.append(" ".join(hypothesis))
            accepted.append([" ".join(tokens) for tokens in _references(reference, index)])
        if not accepted[-1] or not all(isinstance(text, str) for text in accepted[-1]):
            raise ValueError(
                f"references[{index}] must be a string, or a list of strings, as its hypothesis is"
            )
    # sacrebleu wants the first reference of all sentences, then the second of all, None where there is none.
    streams = [list(stream) for stream in zip_longest(*accepted)]
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=effective_order, force=True)
    result = bleu.corpus_score(texts, streams)
    if not effective_order and result.totals[-1] == 0:
        warnings.warn(
            "BLEU is 0 because no hypothesis has as many as 4 tokens: there is no sequence of 4 to count, "
            "however right the words are. Score longer sentences, or pass effective_order=True.",
            stacklevel=2,
        )
    return Bleu(min(result.score, 100.0), str(bleu.get_signature()))  # rounding can leave 100.00000000000004


def error_rate(hypotheses: Sequence[Tokens], references: Sequence[Sequence]) -> float:
    """Edits per reference token: insertions, deletions and substitutions over the whole corpus.

    Of several references the one with the fewest edits counts, among equals the longest; its length is
    what the edits are divided by. On phonemes this is the phoneme error rate (PER), on words the word
    error rate. 0 is perfect; more than 1 is possible where hypotheses are too long.

    Args:
        hypotheses: one sequence of tokens per sentence.
        references: for each sentence one sequence of tokens, or a list of several.

    Raises:
        TypeError: a string in place of a sequence of tokens.
        ValueError: no sentences, unequal numbers, a sentence without reference, no reference token at all.

    >>> error_rate([["K", "AE", "P"]], [["K", "AE", "T", "S"]])  # one wrong, one missing, of four
    0.5
    """
    edits = length = 0
    for hypothesis, accepted in _compared(hypotheses, references):
        fewest, negative_length = min(
            (Levenshtein.distance(hypothesis, reference), -len(reference)) for reference in accepted
        )
        edits += fewest
        length -= negative_length
    if length == 0:
        raise ValueError("references hold no token: an error rate needs at least one to divide by")
    return edits / length


def sequence_error_rate(hypotheses: Sequence[Tokens], references: Sequence[Sequence]) -> float:
    """Share of the sequences that equal none of their references.

    On pronunciations, one sequence a word, this is what the literature on CMUdict calls the word error
    rate (WER). Arguments and errors as for `error_rate`.

    >>> sequence_error_rate([["T", "AH"], ["D", "UW"]], [["T", "UW"], [["D", "AH"], ["D", "UW"]]])
    0.5
    """
    compared = _compared(hypotheses, references)
    return sum(hypothesis not in accepted for hypothesis, accepted in compared) / len(compared)


def alignment_error_rate(predicted: Sequence[Iterable[Link]], gold: Sequence[Alignment]) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|), summed over the corpus (Och and Ney 2003).

    A are the predicted links, S the sure and P the possible gold links. Missing a sure link costs, and so
    does a link that is not even possible; a link that is possible only costs nothing. 0 is perfect.

    Args:
        predicted: for each pair its links (source index, target index).
        gold: for each pair its `Alignment(sure, possible)`; sure links count as possible in any case.

    Raises:
        ValueError: no pairs, unequal numbers, a pair without gold, or neither predicted nor sure links.

    >>> gold = Alignment(sure=frozenset({(0, 0), (1, 2)}), possible=frozenset({(0, 0), (1, 2), (1, 1)}))
    >>> alignment_error_rate([{(0, 0), (1, 1), (2, 2)}], [gold])
    0.4
    """
    _check_numbers(predicted, gold, "predicted", "gold")
    hits = total = 0
    for index, (links, alignment) in enumerate(zip(predicted, gold, strict=True)):
        if alignment is None:
            raise ValueError(f"gold[{index}] is None: leave out the pairs that have no gold alignment")
        links, sure = set(links), set(alignment[0])
        possible = sure | set(alignment[1])
        hits += len(links & sure) + len(links & possible)
        total += len(links) + len(sure)
    if total == 0:
        raise ValueError("predicted and gold hold neither a predicted nor a sure link: nothing to compare")
    return 1 - hits / total


def links_from_weights(weights: Float[Tensor, "target source"], threshold: float | None = None) -> set[Link]:
    """The source word each target word looks at most, as links (source index, target index).

    Args:
        weights: attention, cut to the real words of both sides (as in `Hypothesis.weights`).
        threshold: a target word whose largest weight is below it stays without link.

    A row of zeros, attention that saw nothing, gives no link. Of equal weights the first counts.

    Raises:
        ValueError: weights that are not one matrix, or not numbers.

    >>> sorted(links_from_weights(torch.tensor([[0.1, 0.9], [0.8, 0.2]])))
    [(0, 1), (1, 0)]
    """
    weights = torch.as_tensor(weights)
    if weights.dim() != 2:
        raise ValueError(f"weights has shape {tuple(weights.shape)}: give one sentence's (target, source)")
    if weights.isnan().any():
        raise ValueError("weights holds NaN: an arg max over it would mean nothing")
    if weights.numel() == 0:
        return set()
    largest, where = weights.max(dim=1)
    least = 0.0 if threshold is None else threshold
    return {
        (source, target)
        for target, (weight, source) in enumerate(zip(largest.tolist(), where.tolist(), strict=True))
        if weight > 0 and weight >= least
    }


def pointing_accuracy(
    weights: Sequence[Float[Tensor, "words cells"]], objects: Sequence[Mapping[int, Iterable[int]]]
) -> float:
    """Share of the words naming an object at which the most attended cell lies on that object.

    This is the pointing game of Zhang et al. 2018 (section 5), played by attention. Of equal weights the
    first counts; a word at which nothing was attended is a miss.

    Args:
        weights: for each image the attention at each word of its caption.
        objects: for each image {index of a word that names an object: the cells of the object}, such as
            `Scene.cells`.

    Raises:
        ValueError: no images, unequal numbers, a word without weights, or no word that names anything.

    >>> pointing_accuracy([torch.tensor([[0.9, 0.1], [0.3, 0.7]])], [{0: [0], 1: [0]}])
    0.5
    """
    _check_numbers(weights, objects, "weights", "objects")
    hits = words = 0
    for index, (looked, cells_of) in enumerate(zip(weights, objects, strict=True)):
        for word, cells in cells_of.items():
            if not 0 <= word < len(looked):
                raise ValueError(
                    f"objects[{index}] names word {word}: weights[{index}] has rows 0 to {len(looked) - 1}"
                )
            row = looked[word]
            hits += bool(row.max() > 0) and int(row.argmax()) in set(cells)
            words += 1
    if words == 0:
        raise ValueError("objects names no word: there is nothing to point at")
    return hits / words


def diagonal_links(source_length: int, target_length: int) -> set[Link]:
    """The guess that knows nothing: both sentences run in parallel, stretched to equal length.

    Target word t is linked with the source word that holds its middle, (t + 1/2) source / target.

    >>> sorted(diagonal_links(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    if source_length < 0 or target_length < 0:
        raise ValueError(f"source_length {source_length}, target_length {target_length}: give 0 or more")
    if source_length == 0:
        return set()
    return {
        ((2 * target + 1) * source_length // (2 * target_length), target) for target in range(target_length)
    }


def average_precision(detections: Sequence[Detections], objects: Sequence[Objects]) -> dict[str, float]:
    """COCO's average precision: the area under the curve of precision against recall, mean over the classes.

    The answers of all images are taken surest first. An answer is right if its label is, if its box has an
    IoU of at least a threshold with an object, and if no surer answer has claimed that object: a duplicate
    is wrong. "AP50" and "AP75" have that one threshold; "AP" is the mean over 0.5, 0.55, ..., 0.95. Measured
    by faster-coco-eval, at most 100 answers an image and class; a class that no image shows does not count.

    Args:
        detections: the answers for each image, without a threshold on their scores.
        objects: what each image shows.

    Raises:
        ValueError: not one entry for each image, no object in any of them, or an answer that is not finite.
    """
    from faster_coco_eval import COCO, COCOeval_faster  # takes half a second to import

    _check_numbers(detections, objects, "detections", "objects")
    truth = [(image, *row) for image, shown in enumerate(objects) for row in _rows(shown)]
    if not truth:
        raise ValueError("objects holds no object in any image: there is nothing to find")
    for image, answers in enumerate(detections):
        if not (answers.scores.isfinite().all() and answers.boxes.isfinite().all()):
            raise ValueError(f"detections[{image}] holds a score or a box that is not finite: answers cannot "
                             "be ranked; has the training diverged?")
    said = [(image, *row) for image, answers in enumerate(detections) for row in _rows(answers)]
    if not said:  # which the evaluator would not read
        return dict.fromkeys(("AP", "AP50", "AP75"), 0.0)
    gold = COCO({
        "images": [{"id": image} for image in range(len(objects))],
        "categories": [{"id": label} for label in sorted({label for _, label, *_ in truth})],
        "annotations": [
            {"id": i, "image_id": image, "category_id": label, "bbox": box, "area": box[2] * box[3],
             "iscrowd": 0}
            for i, (image, label, box) in enumerate(truth, start=1)
        ],
    })
    answers = gold.loadRes([
        {"image_id": image, "category_id": label, "score": score, "bbox": box}
        for image, label, score, box in said
    ])
    judge = COCOeval_faster(gold, answers, "bbox")
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    return dict(zip(("AP", "AP50", "AP75"), judge.stats[:3].tolist(), strict=True))


def duplicate_share(detections: Sequence[Detections], *, score: float = 0.5, overlap: float = 0.5) -> float:
    """Share of the images in which one thing is found twice: two answers, whatever their labels, on one box.

    Args:
        detections: the answers for each image.
        score: an answer counts if it is surer than this.
        overlap: two boxes are one if their IoU is larger.

    Raises:
        ValueError: no image.
    """
    if not len(detections):
        raise ValueError("detections is empty: there is nothing to measure")
    twice = 0
    for answers in detections:
        corners = to_corners(answers.above(score).boxes)
        twice += bool((box_iou(corners, corners).triu(1) > overlap).any())
    return twice / len(detections)


def _rows(each: Detections | Objects) -> list[tuple]:
    """For each box its label, its score if it has one, and (left, top, width, height), as COCO writes it."""
    *rest, boxes = each
    corners = torch.cat([to_corners(boxes)[:, :2], boxes[:, 2:]], dim=-1)
    return list(zip(*(part.tolist() for part in (*rest, corners)), strict=True))


def perplexity(loss: float, tokens: int = 1) -> float:
    """exp(loss / tokens): among how many equally likely tokens the model hesitates.

    Always teacher-forced and per real token, END counted, padding not.

    Args:
        loss: negative log-likelihood in nats, summed over `tokens`. A mean per token is a sum over one.
        tokens: number of real tokens in that sum.

    Returns:
        At least 1; infinity where the number is too large to write down.

    Raises:
        ValueError: fewer than one token, a negative loss.

    >>> round(perplexity(3 * math.log(7), tokens=3), 6)
    7.0
    """
    if tokens < 1:
        raise ValueError(f"tokens {tokens}: the loss must be summed over at least one real token")
    if loss < 0:
        raise ValueError(f"loss {loss}: a negative log-likelihood is 0 or more")
    try:
        return math.exp(loss / tokens)
    except OverflowError:
        return math.inf


def _compared(hypotheses, references) -> list[tuple[tuple, list[tuple]]]:
    """Each hypothesis with its accepted references, as tuples of tokens."""
    _check_numbers(hypotheses, references)
    for index, hypothesis in enumerate(hypotheses):
        if isinstance(hypothesis, str):
            raise TypeError(f"hypotheses[{index}] is the string {hypothesis!r}: give a sequence of tokens")
    return [
        (tuple(hypothesis), _references(reference, index))
        for index, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True))
    ]


def _references(reference, index: int) -> list[tuple]:
    """The accepted references of sentence `index`: one sequence of tokens given bare, or a list of them."""
    if isinstance(reference, str):
        raise TypeError(f"references[{index}] is the string {reference!r}: give tokens, as its hypothesis is")
    if len(reference) == 0:
        raise ValueError(f"references[{index}] is empty: give one reference ([[]] if it really has no token)")
    sequences = [isinstance(part, (list, tuple)) for part in reference]
    if any(sequences) and not all(sequences):
        raise TypeError(f"references[{index}] mixes tokens with sequences of tokens: give one or the other")
    return [tuple(part) for part in reference] if all(sequences) else [tuple(reference)]


def _check_numbers(given, truth, given_name: str = "hypotheses", truth_name: str = "references") -> None:
    if isinstance(given, str) or isinstance(truth, str):
        raise TypeError(
            f"{given_name} and {truth_name} must be lists with one entry a sentence, not one string"
        )
    if len(given) != len(truth):
        raise ValueError(
            f"{given_name} has {len(given)} entries, {truth_name} has {len(truth)}: give one for one"
        )
    if len(given) == 0:
        raise ValueError(f"{given_name} is empty: there is nothing to measure")
