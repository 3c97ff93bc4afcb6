"""Decoding against models so small that every sentence they can say is listed and compared.

`Table` is such a model: the chances of the next token are looked up under the two tokens before it. That
is enough memory to notice a beam whose states were not carried along with its tokens, and little enough
to sum probabilities by hand.
"""

from itertools import product
from math import exp, log
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attncourse.data.vocabulary import END, PAD, START, UNKNOWN, Vocabulary
from attncourse.decoding import (
    Hypothesis,
    Translation,
    beam_search,
    caption,
    gnmt_penalty,
    greedy,
    reorder,
    replace_unknown,
    translate,
)
from attncourse.models import CellAnnotator, RNNSearch, Seq2Seq, ShowAttendTell

A, B = 4, 5


class Memory(NamedTuple):
    source: torch.Tensor
    lengths: torch.Tensor
    projected: torch.Tensor | None = None


class State(NamedTuple):
    previous: torch.Tensor
    steps: torch.Tensor


class Step(NamedTuple):
    logits: torch.Tensor
    state: State
    weights: torch.Tensor | None


class Table(nn.Module):
    """p(next | the two tokens before, parity of the source's first token); looks where its token says."""

    def __init__(self, logits: torch.Tensor, attends: bool = True):
        super().__init__()
        self.register_buffer("logits", logits)  # (2, vocabulary, vocabulary, vocabulary)
        self.attends = attends
        self.dropout = nn.Dropout(0.5)
        self.calls = 0

    def encode(self, source, lengths):
        assert not self.training and not torch.is_grad_enabled(), "decoding must run in evaluation mode"
        assert lengths.min() > 0, "an empty source must not reach the model"
        assert source.shape[1] == lengths.max(), "columns that are all padding must not reach the model"
        start = torch.full_like(lengths, START)
        return Memory(source, lengths), State(start, torch.zeros_like(lengths))

    def step(self, token, state, memory):
        self.calls += 1
        kind = memory.source[:, 0] % 2
        weights = None
        if self.attends:
            place = (token + state.steps) % memory.lengths
            weights = nn.functional.one_hot(place, memory.source.shape[1]).float()
        logits = self.dropout(self.logits[kind, state.previous, token])
        return Step(logits, State(token, state.steps + 1), weights)


def table(seed=0, vocabulary=6, sharpness=2.0, **options) -> Table:
    generator = torch.Generator().manual_seed(seed)
    shape = (2, vocabulary, vocabulary, vocabulary)
    return Table(sharpness * torch.randn(shape, generator=generator), **options)


def probabilities(chances: dict[tuple[int, ...], dict[int, float]], **options) -> Table:
    """A table from chances written out: {(before, last): {next: p}}; what is not named is impossible."""
    logits = torch.full((2, 6, 6, 6), -torch.inf)
    logits[..., END] = 0.0
    for (before, last), following in chances.items():
        logits[:, before, last] = -torch.inf
        for token, chance in following.items():
            logits[:, before, last, token] = log(chance)
    return Table(logits, **options)


def never_ends() -> Table:
    logits = torch.zeros(2, 6, 6, 6)
    logits[..., A], logits[..., END] = 1.0, -torch.inf
    return Table(logits)


def batch(*sentences):
    lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
    source = torch.full((len(sentences), max(map(len, sentences), default=0)), PAD)
    for row, sentence in enumerate(sentences):
        source[row, : len(sentence)] = torch.tensor(sentence, dtype=torch.int64)
    return source, lengths


def score_of(model, source_token, tokens, finished=True):
    """The sum of log-probabilities, straight from the table."""
    symbols = [START, START, *tokens, *([END] if finished else [])]
    chances = model.logits[source_token % 2].log_softmax(-1)
    return sum(
        float(chances[before, last, token])
        for before, last, token in zip(symbols, symbols[1:], symbols[2:], strict=False)
    )


ONE = batch([4])
# A is the better first word, and a dead end: the best sentence starts with B.
GARDEN_PATH = {
    (START, START): {A: 0.6, B: 0.4},
    (START, A): {A: 0.4, B: 0.3, END: 0.3},
    (A, A): {END: 0.9, A: 0.1},
    (START, B): {END: 0.9, A: 0.1},
}
seeds = st.integers(0, 10_000)
sentences = st.lists(st.lists(st.integers(4, 9), max_size=4), max_size=5)


def each_decoder(model, source, lengths, **options) -> dict[str, list[Hypothesis]]:
    return {
        "greedy": greedy(model, source, lengths, **options),
        "beam": [kept[0] for kept in beam_search(model, source, lengths, **options)],
    }


# What both searches promise


@given(seeds, sentences, st.booleans(), st.integers(0, 4))
@settings(deadline=None, max_examples=60)
def test_a_hypothesis_is_what_it_says(seed, rows, attends, least):
    """Score, flag and weights must belong to the tokens: here they are recomputed from the tokens."""
    model, (source, lengths) = table(seed, sharpness=1.0, attends=attends), batch(*rows)
    found = [[one] for one in greedy(model, source, lengths, min_length=least)]
    beams = beam_search(model, source, lengths, min_length=least, width=3, keep=6)
    assert len(found) == len(beams) == len(rows)
    for row, kept in zip(rows * 2, found + beams, strict=True):
        for hypothesis in kept:
            if not row:
                assert hypothesis == Hypothesis((), 0.0, True) and hypothesis.weights is None
                continue
            tokens = hypothesis.tokens
            assert not {PAD, START, END} & set(tokens)
            assert len(tokens) + hypothesis.finished <= least + 2 * len(row) + 10
            expected = score_of(model, row[0], tokens, hypothesis.finished)
            assert hypothesis.score == pytest.approx(expected, abs=1e-4), "was the state carried along?"
            if not attends:
                assert hypothesis.weights is None
                continue
            assert hypothesis.weights.shape == (len(tokens), len(row)), "one row a token, none for END"
            assert hypothesis.weights.device.type == "cpu"
            looked = [(token + step) % len(row) for step, token in enumerate([START, *tokens][: len(tokens)])]
            assert hypothesis.weights.argmax(-1).tolist() == looked, "these are another hypothesis' weights"


@given(seeds, sentences)
@settings(deadline=None, max_examples=40)
def test_the_other_rows_and_the_padding_change_nothing(seed, rows):
    """Rows come back in their order, each as if it had been alone (unsorted lengths, empty rows between)."""
    model = table(seed)
    source, lengths = batch(*rows)
    padded = torch.cat([source, torch.full((len(rows), 3), 7)], dim=1)
    for name, together in each_decoder(model, padded, lengths).items():
        alone = [each_decoder(model, *batch(row))[name][0] for row in rows]
        assert together == alone, f"{name}: a row depends on its neighbours"


@pytest.mark.parametrize("mode", [True, False])
def test_the_model_is_left_as_it_was(mode):
    """A part frozen in evaluation mode stays frozen; training goes on after a failure, too."""
    model = nn.Sequential(table(), nn.Dropout())
    model.encode, model.step = model[0].encode, model[0].step
    model.train(mode)
    model[1].eval()
    for search in (greedy, beam_search):
        search(model, *ONE)
        assert [part.training for part in model.modules()] == [mode, mode, mode, False]
        assert torch.is_grad_enabled()
    model.step = None
    with pytest.raises(TypeError):
        greedy(model, *ONE)
    assert model.training is mode and torch.is_grad_enabled()


@pytest.mark.parametrize("limit", [10, None])
def test_a_model_that_never_ends_is_cut_off_and_says_so(limit):
    """Without a limit of its own, decoding would hang."""
    model = never_ends()
    for name, (hypothesis,) in each_decoder(model, *ONE, max_length=limit).items():
        assert hypothesis.tokens == (A,) * (limit or 12), f"{name}: the default is 2 * 1 + 10"
        assert not hypothesis.finished
    assert model.calls == 2 * (limit or 12), "the model is asked once for each symbol, by either search"


@pytest.mark.parametrize("least", [0, 5])
def test_the_default_limit_leaves_as_much_room_after_the_least_length(least):
    """Without it, a min_length above 2 * length + 10 would leave no room for END."""
    for name, (hypothesis,) in each_decoder(never_ends(), *batch([4, 5]), min_length=least).items():
        assert len(hypothesis.tokens) == least + 2 * 2 + 10, name


# A model that reads no more than a number of positions


class Limited(Table):
    """A table that, like learned positions, has no row for what lies behind its limits."""

    def __init__(self, logits, longest_target=None, longest_source=None):
        super().__init__(logits)
        self.longest_target, self.longest_source = longest_target, longest_source

    def encode(self, source, lengths):
        assert self.longest_source is None or source.shape[1] <= self.longest_source, "no such position"
        return super().encode(source, lengths)

    def step(self, token, state, memory):
        assert self.longest_target is None or int(state.steps.max()) < self.longest_target, "no such position"
        return super().step(token, state, memory)


def test_decoding_stops_unfinished_at_the_most_positions_a_model_can_read():
    """START takes the first position, so END may take the last step."""
    source, lengths = batch([4], [4] * 9)
    for limit in (None, 50):
        for name, found in each_decoder(
            Limited(never_ends().logits, longest_target=7), source, lengths, max_length=limit
        ).items():
            assert [(one.tokens, one.finished) for one in found] == [((A,) * 7, False)] * 2, name
    model = Limited(probabilities({(START, START): {A: 1.0}, (START, A): {END: 1.0}}).logits, 2)
    for (hypothesis,) in each_decoder(model, *ONE).values():
        assert hypothesis == Hypothesis((A,), 0.0, True), "a sentence that just fits is finished"
    for (hypothesis,) in each_decoder(Limited(model.logits, 9), *ONE, max_length=1).values():
        assert hypothesis == Hypothesis((A,), 0.0, False), "a lower limit of the caller's counts"


@pytest.mark.parametrize("width", [1, 3])
def test_one_translation_that_is_cut_off_loses_none_of_the_others(width):
    logits = never_ends().logits
    logits[1] = probabilities({(START, START): {B: 1.0}, (START, B): {END: 1.0}}).logits[1]
    model = Limited(logits, longest_target=7)  # "un" is even and goes on for ever, "deux" is odd
    found = translate(model, [["deux"], ["un"], ["deux", "un"]], SOURCE, TARGET, width=width)
    assert [(one.tokens, one.finished) for one in found] == [(["b"], True), (["a"] * 7, False), (["b"], True)]


def test_a_least_length_beyond_what_the_model_can_read_is_refused():
    for search in (greedy, beam_search):
        with pytest.raises(ValueError, match="min_length 7 leaves no room.*longest_target is 7.* at most 6"):
            search(Limited(never_ends().logits, longest_target=7), *ONE, min_length=7)


@pytest.mark.parametrize("width", [1, 3])
def test_a_source_longer_than_the_model_can_read_is_named_before_any_work(width):
    model = Limited(table().logits, longest_source=3)
    asked = [["un"], ["un", "deux", "trois"], ["un"] * 4]
    with pytest.raises(ValueError, match=r"sentences\[2\] has 4 tokens, .*longest_source is 3: cut it"):
        translate(model, asked, SOURCE, TARGET, width=width, batch=1)
    assert model.calls == 0, "the others were decoded, and then thrown away"
    assert len(translate(model, asked[:2], SOURCE, TARGET, width=width)) == 2
    for search in (greedy, beam_search):
        with pytest.raises(ValueError, match="row 1 of source has 4 tokens"):
            search(model, *batch([4], [4] * 4))


def test_the_limit_counts_the_end_symbol():
    model = probabilities({(START, START): {A: 1.0}, (START, A): {END: 1.0}})
    for (hypothesis,) in each_decoder(model, *ONE, max_length=2).values():
        assert hypothesis == Hypothesis((A,), 0.0, True)
    for (hypothesis,) in each_decoder(model, *ONE, max_length=1).values():
        assert hypothesis == Hypothesis((A,), 0.0, False)


def test_end_at_the_first_step_is_the_empty_sentence():
    """Nothing to divide by: a length normalisation without END in the length fails here."""
    model = probabilities({(START, START): {END: 0.6, A: 0.4}})
    found = each_decoder(model, *ONE)
    for alpha in (0.0, 0.6, 1.0):
        ((best, *_),) = beam_search(model, *ONE, width=2, length_penalty=alpha, keep=2)
        found[f"beam with alpha {alpha}"] = [best] if alpha == 0 else found["beam"]
    for (hypothesis,) in found.values():
        assert hypothesis.tokens == () and hypothesis.finished
        assert hypothesis.score == pytest.approx(-0.5108, abs=5e-5)
        assert hypothesis.weights.shape == (0, 1)
    for (hypothesis,) in each_decoder(model, *ONE, min_length=1).values():
        assert hypothesis.tokens == (A,)
        assert hypothesis.score == pytest.approx(log(0.4)), (
            "a forbidden END must not raise the others' chances"
        )


@given(seeds, st.integers(0, 4))
@settings(deadline=None, max_examples=25)
def test_min_length_is_kept(seed, least):
    for (hypothesis,) in each_decoder(table(seed), *ONE, min_length=least).values():
        assert len(hypothesis.tokens) >= least


def test_a_model_with_nothing_left_to_say_stops_unfinished():
    """Only END is possible, and END is not yet allowed: PAD must not step in."""
    model = probabilities({(START, START): {A: 1.0}})
    for (hypothesis,) in each_decoder(model, *ONE, min_length=3).values():
        assert hypothesis.tokens == (A,) and not hypothesis.finished


def test_pad_and_start_are_never_produced():
    logits = torch.zeros(2, 6, 6, 6)
    logits[..., PAD] = logits[..., START] = 9.0
    for (hypothesis,) in each_decoder(Table(logits), *ONE).values():
        assert not {PAD, START} & set(hypothesis.tokens)


def test_an_empty_batch_and_a_batch_of_empty_sources():
    for size in (0, 2):
        source, lengths = torch.zeros(size, 0, dtype=torch.int64), torch.zeros(size, dtype=torch.int64)
        for found in each_decoder(table(), source, lengths).values():
            assert found == [Hypothesis((), 0.0, True)] * size


@pytest.mark.parametrize("search", [greedy, beam_search])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"source": torch.ones(1, 2)}, TypeError, "source is torch.float32"),
        ({"source": [[4]]}, TypeError, "source is list"),
        ({"source": torch.tensor([4])}, ValueError, r"source has shape \(1,\): give \(batch, source\)"),
        ({"lengths": torch.tensor([[1]])}, ValueError, r"lengths has shape \(1, 1\): give \(batch,\)"),
        ({"lengths": torch.tensor([1, 1])}, ValueError, "lengths has 2 entries for 1 rows"),
        ({"lengths": torch.tensor([2])}, ValueError, r"lengths \[2\]: each must be from 0 to the 1 columns"),
        ({"lengths": torch.tensor([-1])}, ValueError, r"lengths \[-1\]"),
        ({"min_length": -1}, ValueError, "min_length -1"),
        ({"max_length": 0}, ValueError, "max_length 0 .* give at least 1"),
        ({"max_length": 5, "min_length": 5}, ValueError, "max_length 5 leaves no room.* give at least 6"),
        ({"max_length": 5.0}, TypeError, "max_length is 5.0: give a whole number"),
        ({"min_length": "3"}, TypeError, "min_length is '3': give a whole number"),
        ({"source": torch.ones(1, 2, dtype=torch.complex64)}, TypeError, "source is torch.complex64"),
    ],
)
def test_a_bad_argument_is_named(search, change, error, message):
    with pytest.raises(error, match=message):
        search(table(), **{"source": ONE[0], "lengths": ONE[1], **change})


def test_a_diverged_model_is_named():
    for search in (greedy, beam_search):
        with pytest.raises(ValueError, match="logits hold NaN"):
            search(Table(torch.full((2, 6, 6, 6), float("nan"))), *ONE)


@pytest.mark.parametrize(
    ("option", "message"),
    [({"width": 0}, "width 0"), ({"keep": 0}, "keep 0"), ({"length_penalty": -1.0}, "length_penalty -1.0")],
)
def test_beam_search_names_its_own_bad_arguments(option, message):
    with pytest.raises(ValueError, match=message):
        beam_search(table(), *ONE, **option)


@pytest.mark.parametrize("option", ["width", "keep"])
def test_beam_search_counts_in_whole_numbers(option):
    with pytest.raises(TypeError, match=f"{option} is 2.5: give a whole number"):
        beam_search(table(), *ONE, **{option: 2.5})


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_ids_of_any_whole_kind_are_read(dtype):
    """Small ids are often stored in few bits; an embedding looks up only some of the kinds."""
    model, (source, lengths) = translator("RNNSearch"), batch([4, 5], [6])
    expected = each_decoder(model, source, lengths)
    assert each_decoder(model, source.to(dtype), lengths.to(dtype)) == expected


# Beam search


def beam_by_definition(model, width, alpha, limit, least, keep):
    """Every step ranks all continuations of the open ones; nothing is skipped, cached or stopped early."""
    chances, opened, finished = model.logits[0].log_softmax(-1), [((START, START), 0.0)], []
    for step in range(limit):
        ranked = sorted(
            (((*said, token), score + float(chances[said[-2], said[-1], token]))
             for said, score in opened for token in range(chances.shape[-1])
             if token not in (PAD, START) and (token != END or step >= least)),
            key=lambda one: -one[1],
        )
        ranked = [one for one in ranked if one[1] > -torch.inf]
        finished += [(said[2:-1], score) for said, score in ranked[:width] if said[-1] == END]
        opened = [one for one in ranked if one[0][-1] != END][:width]
    if finished:
        return sorted(finished, key=lambda one: -one[1] / gnmt_penalty(len(one[0]) + 1, alpha))[:keep]
    return [(said[2:], score) for said, score in opened][:keep]


@given(seeds, st.integers(1, 5), st.sampled_from([0.0, 0.6, 2.0]), st.integers(0, 2), st.integers(1, 4))
@settings(deadline=None, max_examples=120)
def test_beam_search_is_its_definition(seed, width, alpha, least, keep):
    """A beam that shrinks when hypotheses end, or a search that stops too early, finds other sentences."""
    model = table(seed, vocabulary=7, sharpness=1.5)
    (found,) = beam_search(model, *ONE, width=width, length_penalty=alpha, max_length=7, min_length=least,
                           keep=keep)
    expected = beam_by_definition(model, width, alpha, 7, least, keep)
    assert [hypothesis.tokens for hypothesis in found] == [tokens for tokens, _ in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([s for _, s in expected], abs=1e-4)


def test_the_beam_stays_as_wide_when_a_hypothesis_ends():
    """The place of one that ended is taken by the next best; a beam that shrinks would miss B A."""
    rows = []

    class Counted(Table):
        def step(self, token, state, memory):
            assert len(token) == len(memory.source) == len(memory.lengths), "one row of memory a hypothesis"
            rows.append(len(token))
            return super().step(token, state, memory)

    beam_search(Counted(table(2, sharpness=0.1).logits), *ONE, width=3, max_length=6, keep=50)
    assert rows == [1, 3, 3, 3, 3, 3]


def test_the_memory_is_multiplied_once_for_the_beam():
    """Its rows are one sentence, so no order of them is another; only their number must follow the beam."""
    memories = []

    class Watched(Table):
        def step(self, token, state, memory):
            memories.append(memory.source)
            return super().step(token, state, memory)

    beam_search(Watched(table(2, sharpness=0.1).logits), *ONE, width=3, max_length=6, keep=50)
    first = memories[1]
    assert len(memories) == 6 and len(first) == 3
    assert all(memory is first for memory in memories[1:]), "gathered anew at every step"


@given(seeds, st.sampled_from([300.0, 400.0, 1e6, 1e308]))
@settings(deadline=None, max_examples=20)
def test_a_penalty_too_large_to_write_down_ranks_by_length_then_by_score(seed, alpha):
    """(65 / 6) ** 400 is no float; every finite alpha has an order all the same."""
    model = table(seed, sharpness=1.0)
    (kept,) = beam_search(model, *ONE, width=200, max_length=4, length_penalty=alpha, keep=40)
    ranked = sorted(every_sentence(model, 4), key=lambda one: (-len(one[0]), -one[1]))
    assert [hypothesis.tokens for hypothesis in kept] == [tokens for tokens, _ in ranked]
    (long,) = beam_search(model, *ONE, width=4, max_length=60, length_penalty=alpha)
    assert long[0].finished
    assert gnmt_penalty(60, 400.0) == float("inf")


def test_beam_search_finds_what_greedy_walks_past():
    model = probabilities(GARDEN_PATH)
    (one,) = greedy(model, *ONE)
    assert one.tokens == (A, A) and one.score == pytest.approx(log(0.6 * 0.4 * 0.9))
    ((narrow,),) = beam_search(model, *ONE, width=1)
    assert narrow == one
    for width in (2, 5, 50):
        ((wide,),) = beam_search(model, *ONE, width=width)
        assert wide.tokens == (B,) and wide.score == pytest.approx(log(0.4 * 0.9)), f"width {width}"


@given(seeds, sentences, st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_width_1_is_greedy(seed, rows, least):
    model, (source, lengths) = table(seed), batch(*rows)
    beams = beam_search(model, source, lengths, width=1, min_length=least)
    assert [kept[0] for kept in beams] == greedy(model, source, lengths, min_length=least)


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_width_1_is_greedy_where_the_model_is_undecided(seed):
    """Equal chances everywhere: `topk` breaks ties in no fixed order, an arg max takes the first."""
    logits = torch.randint(0, 2, (2, 40, 40, 40), generator=torch.Generator().manual_seed(seed))
    model = Table(logits.float())
    assert [kept[0] for kept in beam_search(model, *ONE, width=1)] == greedy(model, *ONE)


def every_sentence(model, limit):
    """All finished sentences of at most `limit` symbols, END counted, with their scores."""
    for length in range(limit):
        for tokens in product((UNKNOWN, A, B), repeat=length):
            yield tokens, score_of(model, 4, tokens)


@given(seeds, st.sampled_from([0.0, 0.3, 1.0, 2.0]), st.sampled_from([0.5, 2.0, 6.0]))
@settings(deadline=None, max_examples=40)
def test_a_beam_wide_enough_finds_the_best_of_all_sentences(seed, alpha, sharpness):
    """Brute force over the 40 sentences of up to 3 words. Stopping early must never lose the winner."""
    model = table(seed, sharpness=sharpness)
    ranked = sorted(
        every_sentence(model, 4),
        key=lambda sentence: sentence[1] / gnmt_penalty(len(sentence[0]) + 1, alpha),
        reverse=True,
    )
    (kept,) = beam_search(model, *ONE, width=200, length_penalty=alpha, max_length=4, keep=5)
    assert [hypothesis.tokens for hypothesis in kept] == [tokens for tokens, _ in ranked[:5]]
    assert [hypothesis.score for hypothesis in kept] == pytest.approx(
        [score for _, score in ranked[:5]], abs=1e-4
    )


@given(seeds, st.integers(1, 8), st.integers(1, 8), st.sampled_from([0.0, 1.0]))
@settings(deadline=None, max_examples=60)
def test_the_n_best_are_finished_once_sorted_and_distinct(seed, width, keep, alpha):
    model = table(seed, sharpness=1.0)
    (kept,) = beam_search(model, *ONE, width=width, keep=keep, length_penalty=alpha)
    assert 1 <= len(kept) <= keep
    assert len({hypothesis.tokens for hypothesis in kept}) == len(kept), "the same sentence twice"
    normalised = [h.score / gnmt_penalty(len(h.tokens) + h.finished, alpha) for h in kept]
    assert normalised == sorted(normalised, reverse=True)
    assert all(END not in hypothesis.tokens for hypothesis in kept), "a finished hypothesis went on growing"
    assert len({hypothesis.finished for hypothesis in kept}) == 1, "finished and unfinished ones are mixed"


def test_beams_that_never_finish_give_the_best_unfinished():
    (kept,) = beam_search(never_ends(), *ONE, width=3, max_length=6, keep=3)
    assert [hypothesis.finished for hypothesis in kept] == [False] * 3
    assert kept[0].tokens == (A,) * 6
    assert [hypothesis.score for hypothesis in kept] == sorted((h.score for h in kept), reverse=True)
    assert kept[0].weights.shape == (6, 1)


def test_a_finished_hypothesis_is_preferred_to_a_better_unfinished_one():
    chances = {(START, START): {A: 0.9, END: 0.1}, (START, A): {A: 1.0}, (A, A): {A: 1.0}}
    ((best,),) = beam_search(probabilities(chances), *ONE, width=2, max_length=5)
    assert best.tokens == () and best.finished


def test_the_search_stops_when_no_open_beam_can_win():
    """After B END, 0.36, every open beam is worth less: a search to the limit would take 50 steps."""
    model = probabilities({**GARDEN_PATH, (A, B): {A: 1.0}, (B, A): {B: 1.0}})
    beam_search(model, *ONE, width=3, max_length=50)
    assert model.calls == 2


def test_the_search_goes_on_while_an_open_beam_can_win():
    """With a length penalty the first to finish is not the best: the bound must use the longest length."""
    chances = {
        (START, START): {END: 0.55, A: 0.45},
        (START, A): {A: 1.0},
        (A, A): {B: 1.0},
        (A, B): {END: 1.0},
    }
    model = probabilities(chances)
    ((short,),) = beam_search(model, *ONE, width=2, length_penalty=0.0)
    assert short.tokens == ()  # ln 0.55 = -0.598, against ln 0.45 = -0.799
    for width in (1, 2):  # with width 1, the place of the finished one must be filled again
        ((long,),) = beam_search(model, *ONE, width=width, length_penalty=1.0)
        assert long.tokens == (A, A, B)  # -0.799 / (9 / 6) = -0.532


def test_the_length_penalty_by_hand():
    """(5 + L) / 6, with END counted in L: three words and END are L = 4."""
    assert gnmt_penalty(4, 1.0) == pytest.approx(1.5)
    assert gnmt_penalty(5, 1.0) == pytest.approx(1.6667, abs=5e-5)
    assert -3 / gnmt_penalty(4, 1.0) == pytest.approx(-2.0)
    assert -3 / gnmt_penalty(5, 1.0) == pytest.approx(-1.8)
    assert gnmt_penalty(1, 0.6) == 1.0 and gnmt_penalty(9, 0.0) == 1.0


def test_the_length_penalty_counts_the_end_symbol():
    """Two rivals, equal when END counts (1 and 4 symbols) up to a hair; off by one the other would win."""
    for hair, winner in ((-1e-3, ()), (1e-3, (A, A, B))):
        short = 0.5
        long = exp(log(short) * 1.5 + hair)  # worth ln(short) + hair / 1.5 over four symbols
        rest = 1.0 - short - long
        chances = {
            (START, START): {END: short, A: long, B: rest},
            (START, A): {A: 1.0},
            (A, A): {B: 1.0},
            (A, B): {END: 1.0},
            (START, B): {B: 1.0},
            (B, B): {B: 1.0},
        }
        ((best,),) = beam_search(probabilities(chances), *ONE, width=3, length_penalty=1.0)
        assert best.tokens == winner


def test_reorder_takes_rows_of_every_part():
    class Outer(NamedTuple):
        cell: State
        keys: torch.Tensor
        values: torch.Tensor | None

    rows = torch.tensor([2, 0, 2])
    state = State(torch.arange(3), torch.arange(6).view(3, 2))
    outer = reorder(Outer(state, torch.arange(3.0), None), rows)
    assert isinstance(outer, Outer) and isinstance(outer.cell, State)
    assert outer.cell.previous.tolist() == [2, 0, 2]
    assert outer.cell.steps.tolist() == [[4, 5], [0, 1], [4, 5]]
    assert outer.keys.tolist() == [2.0, 0.0, 2.0] and outer.values is None


# Words


SOURCE = Vocabulary(["un", "deux", "trois", "quatre"])
TARGET = Vocabulary(["a", "b"])


@pytest.mark.parametrize("width", [1, 3])
def test_translations_come_in_the_order_of_the_sentences(width):
    """Sorting by length inside must not show outside, wherever the cuts between batches fall."""
    model = table(3)
    asked = [["deux"], [], ["un", "deux", "trois"], ["quatre", "zut", "un"], ["un"], ["zut", "bof"]]
    alone = [translate(model, [sentence], SOURCE, TARGET, width=width)[0] for sentence in asked]
    for size in (1, 2, 64):
        together = translate(model, asked, SOURCE, TARGET, width=width, batch=size)
        assert together == alone
        for sentence, translation in zip(asked, together, strict=True):
            if sentence:
                assert translation.weights.shape == (len(translation.tokens), len(sentence))
    assert [translation.unknown for translation in alone] == [(), (), (), ("zut",), (), ("zut", "bof")]
    assert alone[1].tokens == [] and alone[1].finished


def test_translate_decodes_words_and_says_when_it_was_cut_off():
    chances = probabilities({(START, START): {A: 0.6, B: 0.4}, (START, A): {B: 1.0}})
    (translation,) = translate(chances, [("un",)], SOURCE, TARGET)
    assert translation.tokens == ["a", "b"] and translation.finished
    (cut,) = translate(never_ends(), [["un"]], SOURCE, TARGET, max_length=3)
    assert cut.tokens == ["a"] * 3 and not cut.finished
    assert translate(never_ends(), [], SOURCE, TARGET) == []


@pytest.mark.parametrize("text", ["un deux", ["un deux"], [["un"], "deux"]])
def test_translate_refuses_text(text):
    with pytest.raises(TypeError, match="sentences holds text: give a list of sentences"):
        translate(table(), text, SOURCE, TARGET)


@pytest.mark.parametrize("width", [1, 2])
def test_translate_takes_what_can_be_iterated_once(width):
    """A generator was used up by the first look at it, and the answer was an empty list."""
    asked = [["un", "zut"], [], ["trois"]]
    expected = translate(table(), asked, SOURCE, TARGET, width=width)
    for once in (
        (sentence for sentence in asked),
        (iter(sentence) for sentence in asked),
        dict(enumerate(asked)).values(),
        [dict.fromkeys(sentence).keys() for sentence in asked],
        [np.array(sentence) for sentence in asked],
    ):
        assert translate(table(), once, SOURCE, TARGET, width=width) == expected


@pytest.mark.parametrize(
    ("sentences", "words"),
    [
        (b"un deux", "sentences holds text"), ([b"un"], "sentences holds text"),
        ({("un",)}, "sentences is a set, whose order means nothing: give a list"),
        ([{"un", "deux"}], r"sentences\[0\] is a set"), ([{"un": 1}], r"sentences\[0\] is a dict"),
        ([["un"], None], r"sentences\[1\] is None: give a list"), (5, "sentences is 5"),
        ([["un", 4]], r"sentences\[0\] holds 4: give its words, each a str"),
        (torch.tensor([[4, 5]]), r"sentences\[0\] holds tensor\(4\)"),
        ([[b"un"]], r"sentences\[0\] holds b'un'"),
    ],
)
def test_translate_names_what_is_no_list_of_lists_of_words(sentences, words):
    with pytest.raises(TypeError, match=words):
        translate(table(), sentences, SOURCE, TARGET)


@pytest.mark.parametrize("option", ["width", "batch"])
def test_translate_counts_in_whole_numbers(option):
    with pytest.raises(TypeError, match=f"{option} is 1.5: give a whole number"):
        translate(table(), [["un"]], SOURCE, TARGET, **{option: 1.5})


@pytest.mark.parametrize("option", [{"width": 0}, {"batch": 0}])
def test_translate_names_a_bad_number(option):
    with pytest.raises(ValueError, match="both must be at least 1"):
        translate(table(), [["un"]], SOURCE, TARGET, **option)


# Unknown words


def looked(tokens, rows):
    """A translation whose words looked where `rows` says, one row of weights a word."""
    return Translation(tokens, True, torch.tensor(rows), ("kim",))


def test_an_unknown_word_becomes_the_word_it_looked_at():
    """The row of an earlier word, or the place instead of the word, copies the wrong one."""
    said = looked(["kim", "<unk>", "<unk>"], [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]])
    found = replace_unknown(said, ["a", "b", "c"])
    assert found.tokens == ["kim", "c", "b"], "each word has its own row; known words stay"
    assert said.tokens == ["kim", "<unk>", "<unk>"], "the translation that was given must not change"
    assert found.weights is said.weights and found.finished and found.unknown == ("kim",)


def test_the_dictionary_translates_what_it_knows_and_the_rest_is_copied():
    """Only unknown words ask the dictionary: a known target word may look like one of its entries."""
    said = looked(["cat", "<unk>", "<unk>"], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = replace_unknown(said, ["cat", "dog", "kim"], {"cat": "chat", "dog": "chien"})
    assert found.tokens == ["cat", "chien", "kim"]


def test_what_was_not_looked_up_is_refused():
    without = Translation(["<unk>"], True, None, ())
    with pytest.raises(ValueError, match="only a model that attends"):
        replace_unknown(without, ["a"])
    said = looked(["<unk>"], [[0.6, 0.4]])
    with pytest.raises(ValueError, match="source has 3 words, .* over 2"):
        replace_unknown(said, ["a", "b", "c"])
    for source, words in (("ab", "source is the text 'ab'"), (b"ab", "source is the text b'ab'"),
                          ({"a", "b"}, "source is a set"), (torch.tensor([4]), r"source holds tensor\(4\)")):
        with pytest.raises(TypeError, match=words):
            replace_unknown(said, source)


def test_a_source_that_can_be_iterated_once_is_read():
    said = looked(["<unk>"], [[0.4, 0.6]])
    for source in (iter(["a", "b"]), np.array(["a", "b"]), {1: "a", 2: "b"}.values()):
        assert replace_unknown(said, source).tokens == ["b"]


def test_an_empty_source_has_nothing_to_replace():
    """It has no weights either, even from a model that attends."""
    (empty,) = translate(table(), [[]], SOURCE, TARGET)
    assert replace_unknown(empty, []) == empty


def test_the_weights_of_decoding_name_the_source_word():
    """From the model to the words: the model says <unk>, and its weights say whose."""
    says_unknown = probabilities({(START, START): {UNKNOWN: 1.0}, (START, UNKNOWN): {END: 1.0}})
    sources = [["un", "deux"], ["deux"]]
    found = translate(says_unknown, sources, SOURCE, TARGET)
    copied = [replace_unknown(one, source).tokens for one, source in zip(found, sources, strict=True)]
    assert [one.tokens for one in found] == [["<unk>"], ["<unk>"]]
    # START is 1, so the first step looks at place 1 of 2, and at the only place of 1.
    assert copied == [["deux"], ["deux"]]


# The models of the course


def translator(name: str) -> nn.Module:
    """Untrained, but with large random weights: its choices are clear-cut, and differ from row to row."""
    torch.manual_seed(4)
    model = {"Seq2Seq": Seq2Seq, "RNNSearch": RNNSearch}[name](10, 8, embedding=6, hidden=7)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.8)
    return model


@pytest.mark.parametrize("name", ["Seq2Seq", "RNNSearch"])
def test_score_and_weights_are_those_of_teacher_forcing(name):
    """Decoding and training must agree on what a sentence is worth, and on where the model looked."""
    model = translator(name)
    rows = [[4, 5], [], [6, 7, 8, 9, 4], [9, 9, 5]]
    source, lengths = batch(*rows)
    found = [[one] for one in greedy(model, source, lengths, min_length=2)]
    found += beam_search(model, source, lengths, min_length=2, width=3, keep=3)
    for row, kept in zip(rows * 2, found, strict=True):
        for hypothesis in kept if row else []:
            symbols = torch.tensor([START, *hypothesis.tokens, *[END] * hypothesis.finished])
            with torch.no_grad():
                output = model(*batch(row), symbols[None, :-1])
            chances = output.logits[0].log_softmax(-1).gather(1, symbols[1:, None])
            assert hypothesis.score == pytest.approx(float(chances.sum()), abs=1e-4)
            if name == "Seq2Seq":
                assert hypothesis.weights is None
            else:
                expected = output.weights[0, : len(hypothesis.tokens)]
                torch.testing.assert_close(hypothesis.weights, expected, atol=1e-5, rtol=0)
        if not row:
            assert kept == [Hypothesis((), 0.0, True)]


@pytest.mark.parametrize("name", ["Seq2Seq", "RNNSearch"])
def test_a_real_model_keeps_the_order_of_an_unsorted_batch(name):
    model = translator(name)
    rows = [[4, 5], [6, 7, 8, 9, 4], [], [9, 9, 5]]
    together, alone = greedy(model, *batch(*rows)), [greedy(model, *batch(row))[0] for row in rows]
    narrow = [kept[0] for kept in beam_search(model, *batch(*rows), width=1)]
    assert len({hypothesis.tokens for hypothesis in alone}) > 2, (
        "the rows must differ for this to show anything"
    )
    for one, other, beam in zip(together, alone, narrow, strict=True):
        assert one.tokens == other.tokens == beam.tokens
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert beam.score == pytest.approx(other.score, abs=1e-4)


# --- Captions ----------------------------------------------------------------------------------------------


def captioner(choice="expectation"):
    torch.manual_seed(0)
    model = ShowAttendTell(CellAnnotator(8), 9, choice=choice, embedding=6, hidden=8, width=6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
        model.output.bias[END] += 1.0
    return model


def pictures(count, seed=0):
    return torch.rand(count, 1, 16, 16, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("choice", [None, "expectation", "sample", "gumbel"])
def test_a_caption_is_the_most_probable_word_at_every_step(choice):
    """Decode by hand from the teacher-forced pass; one row of weights a word, all cells as columns."""
    model, images = captioner(choice), pictures(4)
    found = caption(model, images, max_length=7)
    model.eval()
    for row, hypothesis in enumerate(found):
        target, score = [START], 0.0
        while len(target) <= 7:
            told = model(images[row : row + 1], torch.tensor([target]))
            chances = told.logits[0, -1].log_softmax(-1)
            chances[[PAD, START]] = -torch.inf
            score += chances.max().item()
            target.append(int(chances.argmax()))
            if target[-1] == END:
                break
        assert hypothesis.tokens == tuple(token for token in target[1:] if token != END)
        assert hypothesis.finished == (target[-1] == END)
        assert hypothesis.score == pytest.approx(score, abs=1e-4)
        if choice is None:
            assert hypothesis.weights is None
        else:
            torch.testing.assert_close(hypothesis.weights, told.weights[0, : len(hypothesis.tokens)])


def test_captions_end_and_are_cut_off():
    """Both kinds occur in the test above only if the model is undecided; here they are made sure of."""
    model = captioner()
    for bias, words in ((50.0, 0), (-50.0, 5)):
        with torch.no_grad():
            model.output.bias[END] = bias
        [found] = caption(model, pictures(1), max_length=5)
        assert (len(found.tokens), found.finished) == (words, words == 0)
        assert found.weights.shape == (words, 16)


def test_a_model_in_training_is_read_in_evaluation_and_put_back():
    """A sampled choice would give another caption at every call."""
    model, images = captioner("sample").train(), pictures(6)
    first, second = (caption(model, images) for _ in range(2))
    assert first == second
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(first, second, strict=True))
    assert model.training and model.attention.training and not model.annotator.training


class Slides(Table):
    """Another model that captions: the table, which reads whether an image is bright."""

    longest_target = None

    def encode(self, images):
        bright = (images.mean((1, 2, 3)) > 0.5).long()[:, None]
        return super().encode(bright, torch.ones(len(images), dtype=torch.int64))


def test_any_model_with_the_two_calls_captions():
    """Decoding knows no model: an encoder with several channels, and a state of another kind."""
    model = Slides(table(3).logits)
    dark, bright = torch.zeros(3, 4, 6), torch.ones(3, 4, 6)
    found = caption(model, torch.stack([bright, dark]))
    assert [one.tokens for one in found] == [greedy(model_of, *batch([kind]), max_length=40)[0].tokens
                                             for model_of, kind in ((table(3), 1), (table(3), 0))]
    model.longest_target = 2
    assert all(len(one.tokens) + one.finished <= 2 for one in caption(model, torch.stack([bright, dark])))


def test_no_images_no_captions():
    assert caption(captioner(), pictures(0)) == []


@pytest.mark.parametrize(
    ("images", "options", "error", "words"),
    [
        (torch.zeros(2, 16, 16), {}, ValueError, r"images has shape \(2, 16, 16\)"),
        (torch.zeros(1, 1, 16, 16, dtype=torch.uint8), {}, TypeError, "images is torch.uint8"),
        ([[0.0]], {}, TypeError, "images is list"),
        (torch.zeros(1, 1, 16, 16), {"max_length": 0}, ValueError, "max_length 0"),
        (torch.zeros(1, 1, 16, 16), {"max_length": 2.5}, TypeError, "max_length is 2.5: give a whole number"),
    ],
)
def test_captions_refuse_bad_input(images, options, error, words):
    with pytest.raises(error, match=words):
        caption(captioner(), images, **options)
