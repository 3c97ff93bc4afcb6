"""From probabilities to a sentence: a model names the next token's chances, decoding chooses.

Greedy search takes the best token at every step and never regrets it; beam search keeps a few
unfinished sentences alive and takes the best of those that end. Both work for every model that has the
two calls of `models.interface.SequenceModel`: `encode` a source once, then `step` from token to token.
Both read scores from the model as they are: a hypothesis that ended scores exactly what the model,
teacher-forced, gives that target. PAD and START are never produced.

A model whose positions come from a table of limited size says so: `longest_target` is the most symbols it
can produce for a sentence, END counted (as many as it reads, START counted), `longest_source` the most
source tokens it can read. Decoding stops, unfinished, at the first, and refuses what is longer than the
second. A model without them has no limit.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import index
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attncourse.attention import KeysValues
from attncourse.data.vocabulary import END, PAD, SPECIALS, START, UNKNOWN, Vocabulary
from attncourse.models.interface import SequenceModel, Step


@dataclass(frozen=True)
class Hypothesis:
    """One decoded target.

    Attributes:
        tokens: the ids produced, without START and without END.
        score: sum of the natural logarithms of their probabilities, END's included where it was chosen.
        finished: True if the model chose END; False if it was cut off.
        weights: one row of attention for each of `tokens` (none for END), one column for each real source
            token, on the CPU; None if the model has no attention or the source is empty.
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool
    weights: Float[Tensor, "tokens source"] | None = field(default=None, compare=False, repr=False)


INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

# No source word, nothing to say: the model is not asked.
EMPTY = Hypothesis(tokens=(), score=0.0, finished=True)


def greedy(
    model: SequenceModel,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, "batch"],
    *,
    max_length: int | None = None,
    min_length: int = 0,
) -> list[Hypothesis]:
    """Decode a batch by the most probable token at every step, each row until its own END.

    Args:
        model: read in evaluation mode and without gradients; its mode is put back afterwards.
        source: ids, moved to the model's device.
        lengths: real tokens of each row. A row of length 0 gives an empty hypothesis in its place.
        max_length: most symbols produced for a row, END counted. Default: min_length + 2 * its length + 10.
            In any case no more than the model's `longest_target`, if it has one.
        min_length: fewest tokens before END is allowed.

    Returns:
        One hypothesis a row, in the order of the batch. It does not depend on the other rows.

    Raises:
        TypeError, ValueError: for an argument of the wrong kind, shape or range, for a row longer than the
            model's `longest_source`, and for NaN logits.
    """
    source, lengths, limits = _checked(model, source, lengths, max_length, min_length)
    found, rows = [EMPTY] * len(lengths), lengths.nonzero().flatten()
    if len(rows) == 0:
        return found
    with _evaluation(model):
        memory, state = model.encode(source[rows, : int(lengths.max())], lengths[rows])
        decoded = _greedy(model, memory, state, limits[rows], min_length)
    for row, hypothesis in zip(rows.tolist(), decoded, strict=True):
        if hypothesis.weights is not None:  # a row of its own, without columns for the padding of others
            hypothesis = replace(hypothesis, weights=hypothesis.weights[:, : int(lengths[row])].clone())
        found[row] = hypothesis
    return found


class Captioner(Protocol):
    """What `caption` asks of a model: a `SequenceModel` whose source is a batch of images."""

    def encode(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Read the images once; return what the decoder looks at (memory) and where it starts (state)."""
        ...

    def step(
        self, token: Int[Tensor, "batch"], state: tuple[Tensor, ...], memory: tuple[Tensor, ...]
    ) -> Step:
        """Score the next word, given the previous one."""
        ...


def caption(
    model: Captioner, images: Float[Tensor, "batch channels height width"], *, max_length: int = 40
) -> list[Hypothesis]:
    """Describe a batch of images by the most probable word at every step, each until its own END.

    Args:
        model: such as `ShowAttendTell`; read in evaluation mode and without gradients, as by `greedy`.
        images: moved to the model's device.
        max_length: most symbols of a caption, END counted.

    Returns:
        One hypothesis an image. Its weights have a row for each word and a column for each cell.

    Raises:
        TypeError, ValueError: images of another kind or shape, a max_length below 1, and for NaN logits.
    """
    if not isinstance(images, Tensor) or not images.is_floating_point():
        given = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise TypeError(f"images is {given}: give a floating tensor")
    if images.dim() != 4:
        raise ValueError(f"images has shape {tuple(images.shape)}: give (batch, channels, height, width)")
    _check_whole(max_length=max_length)
    if max_length < 1:
        raise ValueError(f"max_length {max_length}: give at least 1, for END")
    if len(images) == 0:
        return []
    with _evaluation(model):
        memory, state = model.encode(images.to(_device(model, images)))
        limits = _readable(model, torch.full((len(images),), max_length))
        return _greedy(model, memory, state, limits, min_length=0)


def _greedy(model, memory, state, limits, min_length) -> list[Hypothesis]:
    """Go on from a state, each row until its END or its limit; weights have every column of the memory."""
    limits = limits.to(_device(model, limits))
    token = torch.full_like(limits, START)
    score = torch.zeros(len(limits), device=limits.device)
    is_open = torch.ones_like(limits, dtype=torch.bool)
    finished = torch.zeros_like(is_open)
    tokens, weights = [], []
    for step in range(int(limits.max())):
        logits, state, attended = model.step(token, state, memory)
        gain, token = _log_probabilities(logits, may_end=step >= min_length).max(dim=-1)
        is_open &= (step < limits) & (gain > -torch.inf)  # -inf: no symbol may follow
        score += gain.where(is_open, 0.0)
        finished |= is_open & (token == END)
        is_open &= token != END
        token = token.where(is_open, PAD)  # rows that stopped are carried along, and say nothing
        tokens.append(token)
        weights.append(attended)
        if not is_open.any():
            break
    tokens = torch.stack(tokens, dim=1).tolist()
    weights = None if weights[0] is None else torch.stack(weights, dim=1).float().cpu()
    found = []
    for row, (total, ended) in enumerate(zip(score.tolist(), finished.tolist(), strict=True)):
        said = tuple(token for token in tokens[row] if token != PAD)
        looked = None if weights is None else weights[row, : len(said)].clone()
        found.append(Hypothesis(said, total, ended, looked))
    return found


class Beam(NamedTuple):
    """The open hypotheses of one sentence, one a row, best first. `tokens` begins with START."""

    tokens: Int[Tensor, "open steps_and_start"]
    score: Float[Tensor, "open"]
    weights: Float[Tensor, "open steps source"] | None


def beam_search(
    model: SequenceModel,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, "batch"],
    *,
    width: int = 4,
    length_penalty: float = 0.0,
    max_length: int | None = None,
    min_length: int = 0,
    keep: int = 1,
) -> list[list[Hypothesis]]:
    """Decode each sentence with `width` open hypotheses; return its best ones, best first.

    At every step all continuations of the open hypotheses are ranked together. One that ends among the
    first `width` is finished and kept aside; the best `width` that do not end stay open. The search is
    over when no open hypothesis can still win, or at `max_length`. Width 1 without a length penalty is
    `greedy`.

    Args:
        model, source, lengths, max_length, min_length: as for `greedy`.
        width: number of open hypotheses; may exceed the vocabulary.
        length_penalty: the alpha of `gnmt_penalty`. Finished hypotheses are ranked by their normalised score,
            score / penalty, with END counted in the length; 0 ranks by the score itself, which favours short
            sentences, and a very large one by the length alone, the longest first.
        keep: most hypotheses returned for a sentence.

    Returns:
        For each row at most `keep` finished hypotheses, all different. Where none finished: the best
        unfinished ones, `finished=False`.

    Raises:
        TypeError, ValueError: as `greedy`; and for a width or keep below 1, a length penalty below 0.
    """
    _check_whole(width=width, keep=keep)
    if width < 1 or keep < 1:
        raise ValueError(f"width {width}, keep {keep}: both must be at least 1")
    if not 0 <= length_penalty < float("inf"):
        raise ValueError(f"length_penalty {length_penalty}: give 0 (none) or a positive number such as 0.6")
    source, lengths, limits = _checked(model, source, lengths, max_length, min_length)
    found = []
    with _evaluation(model):
        for row, (length, limit) in enumerate(zip(lengths.tolist(), limits.tolist(), strict=True)):
            if length == 0:
                found.append([EMPTY])
                continue
            memory, state = model.encode(source[row : row + 1, :length], lengths[row : row + 1])
            beam = Beam(
                tokens=source.new_full((1, 1), START),
                score=torch.zeros(1, device=source.device),
                weights=torch.zeros(1, 0, length, device=source.device),
            )
            found.append(_search(model, memory, state, beam, width, length_penalty, limit, min_length, keep))
    return found


def _search(model, memory, state, beam, width, alpha, limit, min_length, keep) -> list[Hypothesis]:
    """Grow one sentence's beam until nothing open can still win."""

    def normalised(hypothesis: Hypothesis) -> tuple[float, float]:
        return _normalised(hypothesis.score, len(hypothesis.tokens) + 1, alpha)

    finished: list[Hypothesis] = []
    for step in range(limit):
        logits, state, attended = model.step(beam.tokens[:, -1], state, memory)
        if attended is None:
            beam = beam._replace(weights=None)
        totals = beam.score[:, None] + _log_probabilities(logits, may_end=step >= min_length)
        # A hypothesis ends in one way only, so this many hold `width` continuations that do not end.
        ranked = _top(totals.flatten(), width + len(totals))
        parent, token = ranked // totals.shape[1], ranked % totals.shape[1]
        score, ends = totals.flatten()[ranked], token == END

        for rank in ends[:width].nonzero().flatten().tolist():
            finished.append(_hypothesis(beam, parent[rank], score[rank], finished=True))
        finished = sorted(finished, key=normalised, reverse=True)[:keep]

        goes_on = (~ends).nonzero().flatten()[:width]
        if len(goes_on) == 0:  # nothing may follow any of them
            break
        parent = parent[goes_on]
        if len(parent) != len(totals):  # the memory's rows are one sentence: only their number matters
            memory = reorder(memory, parent)
        state = reorder(state, parent)
        beam = _extended(reorder(beam, parent), token[goes_on], score[goes_on], reorder(attended, parent))
        # Why no open one can win. A logarithm of a probability is at most 0, so going on never raises the
        # sum of the best open one, s = score[0] <= 0. The penalty grows with the length, and no length
        # exceeds `limit`. So the normalised score of whatever becomes of it is at most s / penalty(limit).
        best = _normalised(float(beam.score[0]), limit, alpha)
        if len(finished) == keep and best <= normalised(finished[-1]):
            break
    if finished:
        return finished
    return [_hypothesis(beam, row, beam.score[row], finished=False) for row in range(len(beam.score))][:keep]


def _hypothesis(beam: Beam, row: int, score: Float[Tensor, ""], *, finished: bool) -> Hypothesis:
    weights = None if beam.weights is None else beam.weights[row].cpu()
    return Hypothesis(tuple(beam.tokens[row, 1:].tolist()), float(score), finished, weights)


def _extended(beam: Beam, token, score, attended) -> Beam:
    """The beam with one more token, its new scores, and one more row of weights."""
    if attended is not None:
        attended = torch.cat([beam.weights, attended[:, None].float()], dim=1)
    return Beam(torch.cat([beam.tokens, token[:, None]], dim=1), score, attended)


def reorder(parts, rows: Int[Tensor, "rows"]):
    """The given rows of everything in `parts`: a batch-first tensor, None, or a tuple of such parts.

    Beam search calls it on the memory and the state of a model: a hypothesis goes on with the state of the
    one it grew from. A cache knows itself how it is reordered.
    """
    if parts is None:
        return None
    if isinstance(parts, Tensor):
        return parts[rows]
    if isinstance(parts, KeysValues):
        return parts.reordered(rows)
    chosen = (reorder(part, rows) for part in parts)
    return type(parts)(*chosen) if hasattr(parts, "_fields") else tuple(chosen)


def gnmt_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6) ** alpha: what a score is divided by (Wu et al. 2016, section 7, equation 14).

    `length` counts the symbols that were scored: tokens and END. The empty sentence has length 1 and
    penalty 1; nothing is ever divided by zero. Infinity where the number is too large to write down.

    >>> -3 / gnmt_penalty(4, alpha=1.0)
    -2.0
    """
    try:
        return ((5 + length) / 6) ** alpha
    except OverflowError:
        return math.inf


def _normalised(score: float, length: int, alpha: float) -> tuple[float, float]:
    """What orders hypotheses as score / penalty does, the highest first, and overflows for no alpha.

    That is -log(-score / penalty), over alpha where this is large; the score itself decides between equals.
    """
    if score >= 0:
        return math.inf, score
    scale = max(alpha, 1.0)
    return alpha / scale * math.log((5 + length) / 6) - math.log(-score) / scale, score


def _log_probabilities(logits: Float[Tensor, "rows vocabulary"], *, may_end: bool):
    """log p of every next symbol; -inf for those that may not be chosen, the others left as they are."""
    scores = logits.float().log_softmax(dim=-1)
    if scores.isnan().any():
        raise ValueError("the model's logits hold NaN or infinity: has its training diverged?")
    scores[:, [PAD, START] if may_end else [PAD, START, END]] = -torch.inf
    return scores


def _top(scores: Float[Tensor, "candidates"], count: int) -> Int[Tensor, "best"]:
    """Indices of the `count` best, best first, leaving out -inf.

    Equals go by index, as in `Tensor.max`. `topk` alone leaves their order open, and width 1 would then
    differ from greedy search wherever a model is undecided.
    """
    least = scores.topk(min(count, len(scores))).values[-1]
    candidates = (scores >= least) & (scores > -torch.inf)
    index = candidates.nonzero().flatten()
    return index[scores[index].sort(descending=True, stable=True).indices[:count]]


@contextmanager
def _evaluation(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every part of the model is as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _device(model: torch.nn.Module, otherwise: Tensor) -> torch.device:
    """Where the model's numbers lie; a model without any runs where its input is."""
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), otherwise.device)


def _checked(model, source, lengths, max_length, min_length):
    """Source and lengths on the model's device, and the most symbols each row may produce."""
    for name, tensor, axes in (("source", source, 2), ("lengths", lengths, 1)):
        if not isinstance(tensor, Tensor) or tensor.dtype not in INTEGERS:
            given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"{name} is {given}: give a tensor of integers")
        if tensor.dim() != axes:
            shape = "(batch, source)" if axes == 2 else "(batch,)"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: give {shape}")
    batch, size = source.shape
    if len(lengths) != batch:
        raise ValueError(f"lengths has {len(lengths)} entries for {batch} rows of source: give one a row")
    if batch and not 0 <= int(lengths.min()) <= int(lengths.max()) <= size:
        raise ValueError(f"lengths {lengths.tolist()}: each must be from 0 to the {size} columns of source")
    _check_source_lengths(model, lengths.tolist(), "row {} of source")
    _check_whole(min_length=min_length, **({} if max_length is None else {"max_length": max_length}))
    if min_length < 0:
        raise ValueError(f"min_length {min_length}: give 0 or more")
    if max_length is not None and max_length <= min_length:
        raise ValueError(
            f"max_length {max_length} leaves no room for END after min_length {min_length} tokens: "
            f"give at least {min_length + 1}"
        )
    device = _device(model, source)
    source, lengths = source.to(device, torch.int64), lengths.to(device, torch.int64)
    limits = min_length + 2 * lengths + 10 if max_length is None else torch.full_like(lengths, max_length)
    return source, lengths, _readable(model, limits, min_length)


def _check_whole(**numbers: int) -> None:
    for name, value in numbers.items():
        try:
            index(value)
        except TypeError:
            raise TypeError(f"{name} is {value!r}: give a whole number") from None


def _readable(model, limits: Int[Tensor, "batch"], min_length: int = 0) -> Int[Tensor, "batch"]:
    """The limits, or that of the model where it is lower: it reads one position for each symbol it says."""
    longest = getattr(model, "longest_target", None)
    if longest is None:
        return limits
    if min_length >= longest:
        raise ValueError(f"min_length {min_length} leaves no room for END: the model's longest_target is "
                         f"{longest}, so give at most {longest - 1}")
    return limits.clamp(max=longest)


def _check_source_lengths(model, lengths: Sequence[int], called: str) -> None:
    """Refuse, before any work, a source longer than the model can read; `called` says what each is."""
    longest = getattr(model, "longest_source", None)
    for place, length in enumerate(lengths):
        if longest is not None and length > longest:
            raise ValueError(f"{called.format(place)} has {length} tokens, and the model's longest_source is "
                             f"{longest}: cut it, or leave it out")


@dataclass(frozen=True)
class Translation:
    """One translated sentence, in words.

    Attributes:
        tokens: the target words.
        finished: False if the model never came to an end and was cut off.
        weights: one row for each target word, one column for each source word; None without attention.
        unknown: the source words that the source vocabulary lacks, in the order of the sentence.
    """

    tokens: list[str]
    finished: bool
    weights: Float[Tensor, "tokens source"] | None = field(compare=False, repr=False)
    unknown: tuple[str, ...]


def translate(
    model: SequenceModel,
    sentences: Iterable[Iterable[str]],
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
    *,
    width: int = 1,
    batch: int = 64,
    max_length: int | None = None,
) -> list[Translation]:
    """Translate sentences given as lists of words; the answers come in the order of the questions.

    Inside, sentences of similar length share a batch, so that little is computed on padding.

    Args:
        sentences: each a list of source words (`tokenize` makes one from a text). Anything that can be
            iterated once will do, where the order is fixed.
        width: 1 decodes greedily, more by beam search of that width.
        batch: sentences decoded at a time.
        max_length: most symbols of a translation, END counted; the default is that of `greedy`.

    Raises:
        TypeError: for text where lists of words belong, for anything in the place of words, and for what has
            no order.
        ValueError: for a width or batch below 1, a max_length below 1, and a sentence longer than the model's
            `longest_source`.
    """
    sentences = _sentences(sentences)
    _check_source_lengths(model, [len(sentence) for sentence in sentences], "sentences[{}]")
    _check_whole(width=width, batch=batch)
    if width < 1 or batch < 1:
        raise ValueError(f"width {width}, batch {batch}: both must be at least 1")
    ids = [torch.tensor(source_vocabulary.encode(sentence), dtype=torch.int64) for sentence in sentences]
    order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
    found: dict[int, Hypothesis] = {}
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        source = pad_sequence([ids[index] for index in chosen], batch_first=True, padding_value=PAD)
        lengths = torch.tensor([len(ids[index]) for index in chosen])
        if width == 1:
            best = greedy(model, source, lengths, max_length=max_length)
        else:
            best = [
                kept[0] for kept in beam_search(model, source, lengths, width=width, max_length=max_length)
            ]
        found.update(zip(chosen, best, strict=True))
    return [
        Translation(
            tokens=target_vocabulary.decode(found[index].tokens),
            finished=found[index].finished,
            weights=found[index].weights,
            unknown=tuple(
                word for word, known in zip(sentence, ids[index].tolist(), strict=True) if known == UNKNOWN
            ),
        )
        for index, sentence in enumerate(sentences)
    ]


def _sentences(sentences: Iterable[Iterable[str]]) -> list[list[str]]:
    """The sentences as lists of words, each iterated once."""
    text = isinstance(sentences, str | bytes)
    sentences = sentences if text else _in_order(sentences, "sentences")
    if text or any(isinstance(sentence, str | bytes) for sentence in sentences):
        raise TypeError("sentences holds text: give a list of sentences, each a list of words")
    return [_words(sentence, f"sentences[{place}]") for place, sentence in enumerate(sentences)]


def _words(sentence: Iterable[str], name: str) -> list[str]:
    if isinstance(sentence, str | bytes):
        raise TypeError(f"{name} is the text {sentence!r}: give its words, tokenize({sentence!r})")
    words = _in_order(sentence, name)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{name} holds {word!r}: give its words, each a str")
    return words


def _in_order(given: Iterable, name: str) -> list:
    if isinstance(given, set | frozenset | Mapping):
        raise TypeError(f"{name} is a {type(given).__name__}, whose order means nothing: give a list")
    try:
        return list(given)
    except TypeError:
        raise TypeError(f"{name} is {given!r}: give a list") from None


def replace_unknown(
    translation: Translation, source: Iterable[str], dictionary: Mapping[str, str] | None = None
) -> Translation:
    """Put a word in the place of every `<unk>`: the source word read most for it, translated or copied.

    The weights say which source word an unknown target word stands for (Luong et al. 2015, section 4, after
    Luong et al. 2015b, arXiv 1410.8206, and Jean et al. 2015, arXiv 1412.2007). A name is the same in both
    languages, so it is copied; what the dictionary knows is translated.

    Args:
        translation: of `source`, with its weights.
        source: the words that were read.
        dictionary: {source word: target word}; what it lacks is copied.

    Returns:
        The translation with other tokens; as many, so that the weights still fit.

    Raises:
        TypeError: `source` is a text, or no list of words.
        ValueError: the model does not attend, or its weights are not those of this source.
    """
    source = _words(source, "source")
    if not translation.tokens:
        return translation
    if translation.weights is None:
        raise ValueError("translation has no weights: only a model that attends knows whence a word comes")
    if translation.weights.shape[1] != len(source):
        raise ValueError(f"source has {len(source)} words, and the translation's weights are over "
                         f"{translation.weights.shape[1]}: give the words that were translated")
    origins = [source[place] for place in translation.weights.argmax(dim=1).tolist()]
    tokens = [
        (dictionary or {}).get(origin, origin) if token == SPECIALS[UNKNOWN] else token
        for token, origin in zip(translation.tokens, origins, strict=True)
    ]
    return replace(translation, tokens=tokens)
