"""How good is it? Translations, spellings, alignments and probabilities, each against the truth.

Texts are given as tokens: words or ids, in a list, a tensor, an array, or anything else in order. Where
several references are allowed, those of one sentence are a list of them; a single one may be given bare.
Rates are shares, 0.25 and not 25; BLEU alone runs from 0 to 100, as it is always quoted.
"""

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping
from itertools import zip_longest
from operator import index
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics import BLEU
from torch import Tensor

from attncourse.boxes import Detections, Objects, box_iou, to_corners
from attncourse.data.pairs import Alignment

Link = tuple[int, int]  # (source index, target index)
Tokens = Iterable[Hashable]

# These tokenizers cut where there is no white space: a reference of a single "word" is a sentence to them.
CUTS_WITHOUT_SPACES = {"zh", "char", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200", "spBLEU-1K"}


class Bleu(NamedTuple):
    """A BLEU score, 0 to 100, and the settings without which the number means nothing."""

    score: float
    signature: str


def corpus_bleu(
    hypotheses: Iterable[Tokens | str],
    references: Iterable[Iterable],
    *,
    tokenize: str = "none",
    lowercase: bool = False,
    effective_order: bool = False,
) -> Bleu:
    """BLEU of a whole corpus (Papineni et al. 2002), counted by sacrebleu.

    Args:
        hypotheses: one per sentence, each a list of tokens (joined by spaces) or a string.
        references: for each sentence one reference, of the same kind as its hypothesis, or a list of them.
            To a string, a list of single words is refused: as references they are hardly meant.
        tokenize: sacrebleu's tokenizer: "none" for tokens that are already right, "13a" for plain text,
            "zh" for Chinese.
        lowercase: compare without regard to case.
        effective_order: leave out the n-grams that no hypothesis is long enough to have. Such a score is
            not comparable with the usual one; the signature says so (`eff:yes`).

    Warns:
        UserWarning: if the score is 0 only because no hypothesis has four tokens.

    Raises:
        TypeError: a string where tokens belong, or tokens where a string belongs; what has no order.
        ValueError: no sentences, unequal numbers, a sentence without reference, an unknown tokenizer.

    >>> round(corpus_bleu(["the cat sat on"], ["the cat sat on the mat"]).score, 2)
    60.65
    """
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize {tokenize!r}: choose one of {', '.join(BLEU.TOKENIZERS)}")
    hypotheses, references = _one_for_one(hypotheses, references)
    texts, accepted = [], []
    for place, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        if isinstance(hypothesis, str):
            texts.append(hypothesis)
            accepted.append(_reference_texts(reference, f"references[{place}]", tokenize))
        else:
            said, right = _as_tokens(hypothesis, reference, place)
            texts.append(_text(said, f"hypotheses[{place}]"))
            accepted.append([_text(tokens, f"references[{place}]") for tokens in right])
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


def _reference_texts(reference: Any, name: str, tokenize: str) -> list[str]:
    """The accepted references of a sentence that is given as a string."""
    texts = [reference] if isinstance(reference, str) else _listed(_references(reference), name)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a string, or a list of strings, as its hypothesis is")
    words = len(texts) > 1 and not any(len(text.split()) > 1 for text in texts)
    if words and tokenize not in CUTS_WITHOUT_SPACES:
        raise TypeError(f"{name} is a list of {len(texts)} single words, its hypothesis a string: give the "
                        "reference as a string too, or the hypothesis as tokens. If they are as many "
                        "references of one word, give tokens on both sides, [['yes'], ['yeah']]")
    return texts


def _text(tokens: list, name: str) -> str:
    """Tokens joined by spaces, as sacrebleu reads them: it cuts there again, and nowhere else."""
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, str | int):
            raise TypeError(f"{name} holds {token!r}: tokens are words or ids")
        if isinstance(token, str) and len(token.split()) > 1:
            raise TypeError(f"{name} is a list that holds the text {token!r}: give its words, or strings on "
                            "both sides")
    return " ".join(map(str, tokens))


def error_rate(hypotheses: Iterable[Tokens], references: Iterable[Iterable]) -> float:
    """Edits per reference token: insertions, deletions and substitutions over the whole corpus.

    Of several references the one with the fewest edits counts, among equals the longest; its length is
    what the edits are divided by. On phonemes this is the phoneme error rate (PER), on words the word
    error rate. 0 is perfect; more than 1 is possible where hypotheses are too long.

    Args:
        hypotheses: one sequence of tokens per sentence.
        references: for each sentence one sequence of tokens, or a list of several.

    Raises:
        TypeError: a string in place of a sequence of tokens; what has no order, such as a set.
        ValueError: no sentences, unequal numbers, a sentence without reference, no reference token at all.

    >>> error_rate([["K", "AE", "P"]], [["K", "AE", "T", "S"]])  # one wrong, one missing, of four
    0.5
    """
    edits = length = 0
    numbers: dict = {}  # a number for each token: rapidfuzz would take "a" and 97 for the same
    for hypothesis, accepted in _compared(hypotheses, references):
        said, *right = ([numbers.setdefault(token, len(numbers)) for token in tokens]
                        for tokens in (hypothesis, *accepted))
        fewest, negative_length = min(
            (Levenshtein.distance(said, reference), -len(reference)) for reference in right
        )
        edits += fewest
        length -= negative_length
    if length == 0:
        raise ValueError("references hold no token: an error rate needs at least one to divide by")
    return edits / length


def sequence_error_rate(hypotheses: Iterable[Tokens], references: Iterable[Iterable]) -> float:
    """Share of the sequences that equal none of their references.

    On pronunciations, one sequence a word, this is what the literature on CMUdict calls the word error
    rate (WER). Arguments and errors as for `error_rate`.

    >>> sequence_error_rate([["T", "AH"], ["D", "UW"]], [["T", "UW"], [["D", "AH"], ["D", "UW"]]])
    0.5
    """
    compared = _compared(hypotheses, references)
    return sum(hypothesis not in accepted for hypothesis, accepted in compared) / len(compared)


def alignment_error_rate(predicted: Iterable[Iterable[Link]], gold: Iterable[Alignment]) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|), summed over the corpus (Och and Ney 2003).

    A are the predicted links, S the sure and P the possible gold links. Missing a sure link costs, and so
    does a link that is not even possible; a link that is possible only costs nothing. 0 is perfect.

    Args:
        predicted: for each pair its links (source index, target index), as a set or a tensor (links, 2).
        gold: for each pair its `Alignment(sure, possible)`; sure links count as possible in any case.

    Raises:
        TypeError: a link that is no pair of indices.
        ValueError: no pairs, unequal numbers, a pair without gold, or neither predicted nor sure links.

    >>> gold = Alignment(sure=frozenset({(0, 0), (1, 2)}), possible=frozenset({(0, 0), (1, 2), (1, 1)}))
    >>> alignment_error_rate([{(0, 0), (1, 1), (2, 2)}], [gold])
    0.4
    """
    predicted, gold = _one_for_one(predicted, gold, "predicted", "gold")
    hits = total = 0
    for place, (links, alignment) in enumerate(zip(predicted, gold, strict=True)):
        if alignment is None:
            raise ValueError(f"gold[{place}] is None: leave out the pairs that have no gold alignment")
        if not isinstance(alignment, tuple | list) or len(alignment) != 2:
            raise TypeError(f"gold[{place}] is {alignment!r}: give Alignment(sure, possible)")
        links = _links(links, f"predicted[{place}]")
        sure, more = (_links(part, f"gold[{place}]") for part in alignment)
        possible = sure | more
        hits += len(links & sure) + len(links & possible)
        total += len(links) + len(sure)
    if total == 0:
        raise ValueError("predicted and gold hold neither a predicted nor a sure link: nothing to compare")
    return 1 - hits / total


def _links(given: Any, name: str) -> set[Link]:
    """Links as pairs of plain numbers."""
    links = list(given) if isinstance(given, set | frozenset) else _listed(given, name)
    found = set()
    for link in links:
        try:
            source, target = map(_index, link)
        except (TypeError, ValueError):
            raise TypeError(f"{name} holds the link {link!r}: give (source index, target index)") from None
        found.add((source, target))
    return found


def _index(value: Any) -> int:
    """A whole number, which a truth value is not."""
    if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == torch.bool:
        raise TypeError(f"{value!r} is no index")
    return index(value)


def links_from_weights(weights: Float[Tensor, "target source"], threshold: float | None = None) -> set[Link]:
    """The source word each target word looks at most, as links (source index, target index).

    Args:
        weights: attention, cut to the real words of both sides (as in `Hypothesis.weights`).
        threshold: a target word whose largest weight is below it stays without link.

    A row of zeros, attention that saw nothing, gives no link. Of equal weights the first counts.

    Raises:
        TypeError: weights that are no numbers.
        ValueError: weights that are not one matrix, or NaN; a threshold that is NaN.

    >>> sorted(links_from_weights(torch.tensor([[0.1, 0.9], [0.8, 0.2]])))
    [(0, 1), (1, 0)]
    """
    weights = _matrix(weights, "weights", "one sentence's (target, source)")
    if threshold is not None and math.isnan(threshold):
        raise ValueError("threshold is nan: give a number, or None for every word")
    if weights.numel() == 0:
        return set()
    largest, where = weights.max(dim=1)
    least = 0.0 if threshold is None else threshold
    return {
        (source, target)
        for target, (weight, source) in enumerate(zip(largest.tolist(), where.tolist(), strict=True))
        if weight > 0 and weight >= least
    }


def _matrix(given: Any, name: str, meaning: str) -> Tensor:
    """One sentence's or image's weights as a tensor of numbers with two axes."""
    try:
        matrix = torch.as_tensor(given if isinstance(given, Tensor | np.ndarray) else _listed(given, name))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} is no matrix of numbers ({error}): give {meaning}") from error
    if matrix.dim() != 2:
        raise ValueError(f"{name} has shape {tuple(matrix.shape)}: give {meaning}")
    if matrix.isnan().any():
        raise ValueError(f"{name} holds NaN: an arg max over it would mean nothing")
    return matrix


def pointing_accuracy(
    weights: Iterable[Float[Tensor, "words cells"]], objects: Iterable[Mapping[int, Iterable[int]]]
) -> float:
    """Share of the words naming an object at which the most attended cell lies on that object.

    This is the pointing game of Zhang et al. 2018 (section 5), played by attention. Of equal weights the
    first counts; a word at which nothing was attended is a miss.

    Args:
        weights: for each image the attention at each word of its caption.
        objects: for each image {index of a word that names an object: the cells of the object}, such as
            `Scene.cells`.

    Raises:
        TypeError: cells that are no indices.
        ValueError: no images, unequal numbers, a word or a cell without weights, NaN among the weights, or no
            word that names anything.

    >>> pointing_accuracy([torch.tensor([[0.9, 0.1], [0.3, 0.7]])], [{0: [0], 1: [0]}])
    0.5
    """
    weights, objects = _one_for_one(weights, objects, "weights", "objects")
    hits = words = 0
    for place, (looked, cells_of) in enumerate(zip(weights, objects, strict=True)):
        looked = _matrix(looked, f"weights[{place}]", "one image's (words, cells)")
        if not isinstance(cells_of, Mapping):
            raise TypeError(f"objects[{place}] is {cells_of!r}: give {{index of a word: its object's cells}}")
        for word, cells in cells_of.items():
            word, cells = _index(word), _cells(cells, f"objects[{place}][{word!r}]", looked.shape[1])
            if not 0 <= word < len(looked):
                raise ValueError(
                    f"objects[{place}] names word {word}: weights[{place}] has rows 0 to {len(looked) - 1}"
                )
            row = looked[word]
            hits += bool(row.max() > 0) and int(row.argmax()) in cells
            words += 1
    if words == 0:
        raise ValueError("objects names no word: there is nothing to point at")
    return hits / words


def _cells(given: Any, name: str, number: int) -> set[int]:
    """The cells of one object as plain numbers."""
    given = list(given) if isinstance(given, set | frozenset) else _listed(given, name)
    try:
        cells = {_index(cell) for cell in given}
    except TypeError:
        raise TypeError(f"{name} holds {given!r}: give the indices of cells, of a mask nonzero()") from None
    if cells and not 0 <= min(cells) <= max(cells) < number:
        raise ValueError(f"{name} holds cells {min(cells)} to {max(cells)}: the weights are over cells 0 to "
                         f"{number - 1}")
    return cells


def diagonal_links(source_length: int, target_length: int) -> set[Link]:
    """The guess that knows nothing: both sentences run in parallel, stretched to equal length.

    Target word t is linked with the source word that holds its middle, (t + 1/2) source / target.

    >>> sorted(diagonal_links(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    source_length, target_length = index(source_length), index(target_length)
    if source_length < 0 or target_length < 0:
        raise ValueError(f"source_length {source_length}, target_length {target_length}: give 0 or more")
    if source_length == 0:
        return set()
    return {
        ((2 * target + 1) * source_length // (2 * target_length), target) for target in range(target_length)
    }


def average_precision(detections: Iterable[Detections], objects: Iterable[Objects]) -> dict[str, float]:
    """COCO's average precision: the area under the curve of precision against recall, mean over the classes.

    The answers of all images are taken surest first. An answer is right if its label is, if its box has an
    IoU of at least a threshold with an object, and if no surer answer has claimed that object: a duplicate
    is wrong. "AP50" and "AP75" have that one threshold; "AP" is the mean over 0.5, 0.55, ..., 0.95. Measured
    by faster-coco-eval, at most 100 answers an image and class; a class that no image shows does not count.

    Args:
        detections: the answers for each image, without a threshold on their scores.
        objects: what each image shows.

    Raises:
        TypeError: an entry of another kind.
        ValueError: not one entry for each image, no object in any of them, or a number that is not finite.
    """
    from faster_coco_eval import COCO, COCOeval_faster  # takes half a second to import

    detections, objects = _one_for_one(detections, objects, "detections", "objects")
    detections = _each_image(detections, Detections, "detections")
    objects = _each_image(objects, Objects, "objects")
    truth = [(image, *row) for image, shown in enumerate(objects) for row in _rows(shown)]
    if not truth:
        raise ValueError("objects holds no object in any image: there is nothing to find")
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


def duplicate_share(detections: Iterable[Detections], *, score: float = 0.5, overlap: float = 0.5) -> float:
    """Share of the images in which one thing is found twice: two answers, whatever their labels, on one box.

    Args:
        detections: the answers for each image.
        score: an answer counts if it is surer than this.
        overlap: two boxes are one if their IoU is larger.

    Raises:
        TypeError: an entry of another kind.
        ValueError: no image, a number that is not finite, a score or an overlap outside 0 to 1.
    """
    for name, value in {"score": score, "overlap": overlap}.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}: it must lie between 0 and 1")
    detections = _each_image(detections, Detections, "detections")
    if not detections:
        raise ValueError("detections is empty: there is nothing to measure")
    twice = 0
    for answers in detections:
        corners = to_corners(answers.above(score).boxes)
        twice += bool((box_iou(corners, corners).triu(1) > overlap).any())
    return twice / len(detections)


def _each_image(given: Any, kind: type, name: str) -> list:
    """What each image has, as tensors, if all numbers are finite."""
    found = []
    for place, each in enumerate(_entries(given, name)):
        if not isinstance(each, kind):
            given = type(each).__name__
            raise TypeError(f"{name}[{place}] is a {given}: give {kind.__name__} for each image")
        found.append(kind(*map(torch.as_tensor, each)))
        if not all(part.isfinite().all() for part in found[-1]):
            raise ValueError(f"{name}[{place}] holds a score or a box that is not finite, which cannot be "
                             "ranked or compared; has the training diverged?")
    return found


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
        TypeError: a loss or tokens that are not one number.
        ValueError: fewer than one token, a negative loss.

    >>> round(perplexity(3 * math.log(7), tokens=3), 6)
    7.0
    """
    loss, tokens = _number(loss, "loss"), _number(tokens, "tokens")
    if not tokens >= 1:
        raise ValueError(f"tokens {tokens}: the loss must be summed over at least one real token")
    if loss < 0:
        raise ValueError(f"loss {loss}: a negative log-likelihood is 0 or more")
    try:
        return math.exp(loss / tokens)
    except OverflowError:
        return math.inf


def _number(value: Any, name: str) -> float:
    if isinstance(value, str | bytes) or getattr(value, "shape", ()) not in ((), (1,)):
        raise TypeError(f"{name} is {value!r}: give one number")
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: give one number") from None


def _compared(hypotheses: Any, references: Any) -> list[tuple[list, list[list]]]:
    """Each hypothesis with its accepted references, as lists of plain tokens."""
    hypotheses, references = _one_for_one(hypotheses, references)
    return [
        _as_tokens(hypothesis, reference, place)
        for place, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True))
    ]


def _as_tokens(hypothesis: Any, reference: Any, place: int) -> tuple[list, list[list]]:
    """One hypothesis and its accepted references."""
    said, accepted = _tokens(hypothesis, f"hypotheses[{place}]"), _accepted(reference, place)
    kinds = [{isinstance(token, str) for token in tokens} for tokens in (said, sum(accepted, []))]
    if all(kinds) and kinds[0].isdisjoint(kinds[1]):
        raise TypeError(f"hypotheses[{place}] and references[{place}] compare words with numbers: "
                        "decode the ids first, or encode the words")
    return said, accepted


def _tokens(given: Any, name: str) -> list:
    tokens = _listed(given, name)
    for token in tokens:
        if isinstance(token, list | tuple) or not isinstance(token, Hashable):
            raise TypeError(f"{name} holds {token!r}: give one sequence of tokens, each a word or an id")
    return tokens


def _accepted(reference: Any, place: int) -> list[list]:
    """The accepted references of a sentence: one sequence of tokens given bare, or a list of them."""
    name = f"references[{place}]"
    parts = _listed(_references(reference), name)
    if not parts:
        raise ValueError(f"{name} is empty: give one reference ([[]] if it really has no token)")
    sequences = [isinstance(part, Iterable) and not isinstance(part, str | bytes) for part in parts]
    if any(sequences) and not all(sequences):
        raise TypeError(f"{name} mixes tokens with sequences of tokens: give one or the other")
    return [_tokens(part, name) for part in parts] if all(sequences) else [_tokens(parts, name)]


def _references(given: Any) -> Any:
    """A set of several references as a list: the order of these, unlike that of tokens, means nothing."""
    several = isinstance(given, set | frozenset) and all(
        isinstance(part, tuple) or isinstance(part, str) and len(part.split()) > 1 for part in given
    )
    return list(given) if several else given


def _listed(given: Any, name: str) -> list:
    """What is in `given`, in order, iterated once; tensors and arrays as plain numbers.

    A tensor is found in a set by its address: two equal ones would be different tokens, links or cells.
    """
    if isinstance(given, Tensor | np.ndarray) and given.ndim:
        return given.tolist()
    return [part.tolist() if isinstance(part, Tensor | np.ndarray | np.generic) else part
            for part in _entries(given, name)]


def _entries(given: Any, name: str) -> list:
    """What is in `given`, in order, each as it is."""
    if isinstance(given, str | bytes):
        kind = "string" if isinstance(given, str) else "bytes"
        raise TypeError(f"{name} is the {kind} {given!r}: give a list, of tokens where these are compared")
    if isinstance(given, set | frozenset | Mapping):
        raise TypeError(f"{name} is a {type(given).__name__}, whose order means nothing: give a list")
    try:
        return list(given)
    except TypeError:
        raise TypeError(f"{name} is {given!r}: give a list") from None


def _one_for_one(
    given: Any, truth: Any, given_name: str = "hypotheses", truth_name: str = "references"
) -> tuple[list, list]:
    """What is measured and the truth, one entry of each for one of the other."""
    if isinstance(given, str | bytes) or isinstance(truth, str | bytes):
        raise TypeError(
            f"{given_name} and {truth_name} must be lists with one entry a sentence, not one string"
        )
    given, truth = _entries(given, given_name), _entries(truth, truth_name)
    if len(given) != len(truth):
        raise ValueError(
            f"{given_name} has {len(given)} entries, {truth_name} has {len(truth)}: give one for one"
        )
    if len(given) == 0:
        raise ValueError(f"{given_name} is empty: there is nothing to measure")
    return given, truth
