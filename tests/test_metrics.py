"""Every value here was worked out by hand, or is sacrebleu's, or follows from the definition."""

import logging
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from attncourse.boxes import Detections, Objects, box_iou, to_corners
from attncourse.data.pairs import Alignment
from attncourse.metrics import (
    alignment_error_rate,
    average_precision,
    corpus_bleu,
    diagonal_links,
    duplicate_share,
    error_rate,
    links_from_weights,
    perplexity,
    pointing_accuracy,
    sequence_error_rate,
)

words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=7)
links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


# What may be given


WORDS = [["a", "b", "c", "d", "e"], ["d", "c"]]
IDS = [[5, 6, 7, 8, 9], [8, 7]]
FORMS = {
    "lists": list,
    "tuples": lambda rows: [tuple(row) for row in rows],
    "arrays": lambda rows: [np.array(row) for row in rows],
    "elements of arrays": lambda rows: [list(np.array(row)) for row in rows],
    "generators": lambda rows: (iter(row) for row in rows),
    "views of dictionaries": lambda rows: dict(enumerate(dict.fromkeys(row).keys() for row in rows)).values(),
    "tensors": lambda rows: [torch.tensor(row) for row in rows],
    "elements of tensors": lambda rows: [list(torch.tensor(row)) for row in rows],
}
cases = [(form, rows) for form in FORMS for rows in (WORDS, IDS) if "tensor" not in form or rows is IDS]
any_ordered_form = pytest.mark.parametrize(("form", "rows"), cases, ids=lambda value: str(value)[:20])


@any_ordered_form
@pytest.mark.parametrize("metric", [error_rate, sequence_error_rate])
def test_tokens_may_come_in_any_ordered_form(form, rows, metric):
    """A tensor's hash is its address: two equal ones were two tokens, and the rate was 1 where it is 0."""
    form = FORMS[form]
    wrong = [row[:-1] + rows[0][:1] for row in rows]  # the last token of each is another
    assert metric(form(rows), form(rows)) == 0
    assert metric(form(wrong), form(rows)) == (pytest.approx(2 / 7) if metric is error_rate else 1)
    assert metric(form(rows), [list(form(pair)) for pair in zip(wrong, rows, strict=True)]) == 0, (
        "as one of several references"
    )


@any_ordered_form
def test_bleu_reads_any_ordered_form(form, rows):
    form, wrong = FORMS[form], [rows[0][:3] + rows[1][:1] + rows[0][4:], rows[1]]
    assert corpus_bleu(form(rows), form(rows)).score == 100
    assert corpus_bleu(form(rows), form(wrong)) == corpus_bleu(rows, wrong)
    as_texts = ([" ".join(map(str, row)) for row in given_rows] for given_rows in (rows, wrong))
    assert corpus_bleu(rows, wrong) == corpus_bleu(*as_texts)


def test_a_tensor_of_rows_is_a_batch_of_hypotheses_and_several_references():
    rows = torch.tensor([[4, 5], [6, 7]])
    assert error_rate(rows, rows) == sequence_error_rate(rows, rows.numpy()) == 0
    assert error_rate([rows[1]], [rows]) == 0, "two references of one length, as one tensor"
    assert error_rate([[4, 5]], [{(4, 5), (6,)}]) == 0, "several references have no order"
    assert corpus_bleu(["a b c d"], [{"a b c d", "x y"}]).score == 100


def test_tokens_of_two_kinds_are_never_the_same():
    """rapidfuzz compares a single letter by its code."""
    assert error_rate([["a", 5]], [[97, 5]]) == 0.5
    assert error_rate([[-1]], [[-2]]) == 1


@pytest.mark.parametrize("metric", [error_rate, sequence_error_rate, corpus_bleu])
@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        ([b"ab"], [["a"]], r"hypotheses\[0\] is the bytes b'ab'"),
        ([["a"]], [b"ab"], r"references\[0\] is the bytes b'ab'"),
        (b"ab", [["a"]], "not one string"),
        ([{"a", "b"}], [["a", "b"]], r"hypotheses\[0\] is a set, whose order means nothing"),
        ([["a", "b"]], [{"a", "b"}], r"references\[0\] is a set"),
        ([{"a": 1}], [["a"]], r"hypotheses\[0\] is a dict"),
        ({("a",)}, [["a"]], "hypotheses is a set"), ([["a"]], {"a": ["a"]}, "references is a dict"),
        ([None], [["a"]], r"hypotheses\[0\] is None: give a list"),
        ([["a"]], [5], r"references\[0\] is 5"), (3, [["a"]], "hypotheses is 3"),
        (torch.tensor([4, 5]), torch.tensor([4, 5]), r"hypotheses\[0\] is tensor\(4\): give a list"),
        ([[["a"], ["b"]]], [["a"]], r"hypotheses\[0\] holds \['a'\]: give one sequence"),
        ([[4, 5]], [["a", "b"]], r"hypotheses\[0\] and references\[0\] compare words with numbers"),
        ([["a"]], [[torch.tensor([4]), torch.tensor([5])]], "compare words with numbers"),
    ],
)
def test_what_is_no_sequence_of_tokens_is_named(metric, hypotheses, references, words):
    with pytest.raises(TypeError, match=words):
        metric(hypotheses, references)


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        (["the cat sat"], [["the", "cat", "sat"]], r"references\[0\] is a list of 3 single words"),
        (["a b", "cat"], ["a b", ["the", "cat"]], r"references\[1\] is a list of 2 single words"),
        ([["the", "cat"]], [["the cat", "a"]], r"references\[0\] is a list that holds the text 'the cat'"),
        ([["the cat"]], [["the", "cat"]], r"hypotheses\[0\] is a list that holds the text 'the cat'"),
        ([[1.5]], [[1.5]], r"hypotheses\[0\] holds 1.5: tokens are words or ids"),
        ([[True]], [[True]], "holds True"), ([[b"a"]], [[b"a"]], "holds b'a'"),
    ],
)
def test_a_list_of_words_is_no_list_of_references_and_a_text_no_token(hypotheses, references, words):
    """BLEU was 12.1 where it is 100: each word of the reference was one more reference."""
    with pytest.raises(TypeError, match=words):
        corpus_bleu(hypotheses, references)


def test_several_references_that_really_have_one_word_can_be_given():
    assert corpus_bleu([["yes"]], [[["yes"], ["yeah"]]], effective_order=True).score == 100
    assert corpus_bleu(["yes"], [["yes"]], effective_order=True).score == 100
    assert corpus_bleu(["我爱北京"], [["我爱上海", "我爱北京"]], tokenize="zh").score == 100
    assert corpus_bleu(["a b c d"], [["x", "a b c d"]]).score == 100


# BLEU


def test_a_short_hypothesis_pays_the_brevity_penalty():
    """The penalty turned round would reward what was left out and go above 100."""
    bleu = corpus_bleu([["the", "cat", "sat", "on"]], [["the", "cat", "sat", "on", "the", "mat"]])
    assert bleu.score == pytest.approx(100 * math.exp(1 - 6 / 4))
    assert "tok:none" in bleu.signature and "version:" in bleu.signature


@given(st.lists(words, min_size=1, max_size=4))
def test_a_corpus_with_four_words_in_a_row_is_perfect_against_itself(sentences):
    sentences.append(["a", "b", "c", "d"])
    assert corpus_bleu(sentences, sentences).score == pytest.approx(100)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=4))
@pytest.mark.filterwarnings("ignore:BLEU is 0")
def test_bleu_is_sacrebleus_and_stays_between_0_and_100(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    bleu = corpus_bleu(hypotheses, references)
    theirs = BLEU(tokenize="none").corpus_score(
        [" ".join(h) for h in hypotheses], [[" ".join(r) for r in references]]
    )
    assert 0 <= bleu.score <= 100
    assert bleu.score == pytest.approx(theirs.score)


@pytest.mark.parametrize("sentence", ["a", "a b", "a b c"])
def test_a_zero_for_want_of_four_words_is_explained(sentence):
    """Identical short sentences score 0, and the reader must learn why."""
    with pytest.warns(UserWarning, match="as many as 4 tokens.*effective_order"):
        assert corpus_bleu([sentence], [sentence]).score == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bleu = corpus_bleu([sentence], [sentence], effective_order=True)
        assert corpus_bleu(["a b c d"], ["e f g h"]).score == 0, "really wrong: no excuse to offer"
    assert bleu.score == 100
    assert "eff:yes" in bleu.signature


def test_tokens_and_strings_are_the_same_to_bleu():
    hypotheses, references = ["a b c d e"], ["a b c d f"]
    as_tokens = corpus_bleu([hypotheses[0].split()], [references[0].split()])
    assert as_tokens == corpus_bleu(hypotheses, references)


def test_bleu_takes_the_best_of_any_number_of_references():
    hypotheses = [["a", "b", "c", "d"], ["d", "c", "b", "a"]]
    several = corpus_bleu(hypotheses, [[["x"], ["a", "b", "c", "d"]], [["d", "c", "b", "a"]]])
    assert several.score == 100
    assert "nrefs:var" in several.signature
    assert corpus_bleu(["a b c d"], [["x", "a b c d"]]).score == 100


def test_case_and_tokenizer_are_options_and_in_the_signature():
    assert corpus_bleu(["The cat sat down"], ["the cat sat down"]).score < 100
    lower = corpus_bleu(["The cat sat down"], ["the cat sat down"], lowercase=True)
    assert lower.score == 100 and "case:lc" in lower.signature
    chinese = corpus_bleu(["我爱北京"], ["我爱北京"], tokenize="zh")
    assert chinese.score == 100 and "tok:zh" in chinese.signature


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "hypotheses is empty"),
        ([["a"]], [["a"], ["b"]], "hypotheses has 1 entries, references has 2"),
        ([["a"]], [[]], r"references\[0\] is empty"),
        (["a"], [[]], r"references\[0\]"),
        (["a"], [[["a"]]], r"references\[0\] must be a string"),
    ],
)
def test_bleu_refuses_what_does_not_pair_up(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        corpus_bleu(hypotheses, references)


def test_bleu_names_an_unknown_tokenizer_and_a_wrong_kind():
    with pytest.raises(ValueError, match="tokenize 'moses': choose one of none, zh"):
        corpus_bleu(["a"], ["a"], tokenize="moses")
    with pytest.raises(TypeError, match=r"references\[0\] is the string 'a b'"):
        corpus_bleu([["a", "b"]], ["a b"])
    with pytest.raises(TypeError, match="not one string"):
        corpus_bleu("abcd", "abcd")


# Error rates


def test_error_rate_counts_edits_over_the_whole_corpus():
    """One substitution, one insertion, one deletion over 3 + 2 + 3 tokens; a mean of rates would be 0.39."""
    hypotheses = [["K", "AE", "P"], ["D", "AO", "G"], ["B", "D"]]
    references = [["K", "AE", "T"], ["D", "AO"], ["B", "ER", "D"]]
    assert error_rate(hypotheses, references) == pytest.approx(3 / 8)
    assert sequence_error_rate(hypotheses, references) == 1.0


def test_tokens_are_compared_whole():
    """Letters compared one by one would find AA and AE half right."""
    assert error_rate([["AA"]], [["AE"]]) == 1.0


def test_the_closest_reference_counts_and_among_equals_the_longest():
    either = [("T", "AH", "M"), ("T", "OW", "M", "EY")]
    assert error_rate([["T", "OW", "M", "EY"]], [either]) == 0.0
    assert sequence_error_rate([["T", "OW", "M", "EY"]], [either]) == 0.0
    assert error_rate([["a", "b"]], [[["a"], ["a", "b", "c"]]]) == pytest.approx(1 / 3)


def test_sequence_error_rate_is_a_share_of_sequences():
    hypotheses = [["a"], ["b", "c"], ["d"], []]
    references = [["a"], ["b"], [["e"], ["d"]], ["f"]]
    assert sequence_error_rate(hypotheses, references) == pytest.approx(2 / 4)


def distance(first, second):
    """Edit distance from its definition."""
    if not first or not second:
        return len(first) + len(second)
    same = first[0] == second[0]
    return min(
        distance(first[1:], second[1:]) + (not same),
        distance(first[1:], second) + 1,
        distance(first, second[1:]) + 1,
    )


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), min_size=1, max_size=5))
def test_error_rate_is_the_edit_distance_by_definition(hypothesis, reference):
    assert error_rate([hypothesis], [reference]) == pytest.approx(
        distance(hypothesis, reference) / len(reference)
    )


def test_an_empty_answer_misses_everything_and_a_long_one_more_than_everything():
    assert error_rate([[]], [["a", "b"]]) == 1.0
    assert error_rate([["x"] * 6], [["a", "b"]]) == 3.0
    assert error_rate([[], ["a"]], [[[]], ["a"]]) == 0.0, "a reference that really is empty, written [[]]"


@pytest.mark.parametrize("rate", [error_rate, sequence_error_rate])
def test_error_rates_refuse_what_does_not_pair_up(rate):
    with pytest.raises(ValueError, match="hypotheses has 1 entries, references has 0"):
        rate([["a"]], [])
    with pytest.raises(ValueError, match="hypotheses is empty"):
        rate([], [])
    with pytest.raises(ValueError, match=r"references\[1\] is empty"):
        rate([["a"], ["a"]], [["a"], []])
    with pytest.raises(TypeError, match=r"hypotheses\[0\] is the string 'cat'"):
        rate(["cat"], [["c"]])
    with pytest.raises(TypeError, match=r"references\[0\] is the string 'cat'"):
        rate([["c"]], ["cat"])
    with pytest.raises(TypeError, match=r"references\[0\] mixes"):
        rate([["c"]], [["c", ["a", "t"]]])


def test_an_error_rate_without_reference_tokens_is_refused():
    with pytest.raises(ValueError, match="references hold no token"):
        error_rate([["a"]], [[[]]])


# Alignment


def test_alignment_error_rate_by_hand():
    """A = {00, 11, 22}, S = {00, 12}, P adds {11}: 1 - (1 + 2) / (3 + 2)."""
    gold = Alignment(frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (1, 1)}))
    predicted = {(0, 0), (1, 1), (2, 2)}
    assert alignment_error_rate([predicted], [gold]) == pytest.approx(1 - 3 / 5)


def test_alignment_error_rate_is_summed_over_the_corpus_not_averaged():
    sure = Alignment(frozenset({(0, 0)}), frozenset({(0, 0)}))
    long = Alignment(frozenset((i, i) for i in range(4)), frozenset())
    assert alignment_error_rate([{(1, 0)}, long.sure], [sure, long]) == pytest.approx(1 - 8 / 10)


@given(links, links)
def test_sure_links_count_as_possible_whether_listed_or_not(sure, more):
    predicted = sure | {(9, 9)}
    listed, unlisted = Alignment(sure, sure | more), Alignment(sure, more - sure)
    assert alignment_error_rate([predicted], [listed]) == alignment_error_rate([predicted], [unlisted])


@given(links.filter(len), links, links)
def test_alignment_error_rate_is_0_between_sure_and_possible_and_never_outside_0_and_1(sure, more, predicted):
    gold = Alignment(sure, sure | more)
    assert alignment_error_rate([sure], [gold]) == 0
    assert alignment_error_rate([sure | more], [gold]) == 0, "a possible link must cost nothing"
    assert 0 <= alignment_error_rate([predicted], [gold]) <= 1
    assert alignment_error_rate([set()], [gold]) == 1


def test_links_may_come_in_any_form():
    """A link of tensors, or a row of one, was found in no set: the rate was 1 where it is 0."""
    gold = Alignment(frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (1, 1)}))
    pairs = [(0, 0), (1, 1), (1, 2)]
    rows = torch.tensor(pairs)
    for links in (
        rows, rows.numpy(), list(rows), [tuple(row) for row in rows], [list(pair) for pair in pairs],
        iter(pairs), {tuple(np.array(pair)) for pair in pairs}, dict.fromkeys(pairs).keys(),
    ):
        assert alignment_error_rate([links], [gold]) == 0
    for same in ((rows[[0, 2]], rows), [[[0, 0], [1, 2]], [[1, 1]]], (iter(gold.sure), iter(gold.possible))):
        assert alignment_error_rate([pairs], [same]) == 0
    assert alignment_error_rate(iter([pairs]), iter([gold])) == 0
    assert alignment_error_rate([torch.zeros(0, 2)], [gold]) == 1, "no link, as a tensor"


@pytest.mark.parametrize(
    ("predicted", "gold", "words"),
    [
        ([{0, 1}], [({(0, 0)}, set())], r"predicted\[0\] holds the link 0: give \(source index, target"),
        ([[(0, 1, 2)]], [({(0, 0)}, set())], r"holds the link \(0, 1, 2\)"),
        ([torch.ones(2, 2)], [({(0, 0)}, set())], r"holds the link \[1.0, 1.0\]"),
        ([torch.ones(2, 2).bool()], [({(0, 0)}, set())], r"holds the link \[True, True\]"),
        (["0-0 1-1"], [({(0, 0)}, set())], r"predicted\[0\] is the string"),
        ([{(0, 0)}], [{(0, 0)}], r"gold\[0\] is .*give Alignment\(sure, possible\)"),
        ([{(0, 0)}], [[(0, 0), (1, 1)]], r"gold\[0\] holds the link 0"),
        ("ab", "cd", "not one string"),
    ],
)
def test_what_is_no_link_is_named(predicted, gold, words):
    with pytest.raises(TypeError, match=words):
        alignment_error_rate(predicted, gold)


def test_a_link_turned_round_is_another_link():
    gold = Alignment(frozenset({(0, 1)}), frozenset({(0, 1)}))
    assert alignment_error_rate([{(0, 1)}], [gold]) == 0
    assert alignment_error_rate([{(1, 0)}], [gold]) == 1


def test_alignment_error_rate_refuses_what_cannot_be_scored():
    gold = Alignment(frozenset({(0, 0)}), frozenset({(0, 0)}))
    with pytest.raises(ValueError, match="predicted has 2 entries, gold has 1"):
        alignment_error_rate([set(), set()], [gold])
    with pytest.raises(ValueError, match="predicted is empty"):
        alignment_error_rate([], [])
    with pytest.raises(ValueError, match=r"gold\[1\] is None"):
        alignment_error_rate([set(), set()], [gold, None])
    with pytest.raises(ValueError, match="neither a predicted nor a sure link"):
        alignment_error_rate([set()], [Alignment(frozenset(), frozenset())])


def test_links_are_source_first_and_one_for_each_target_word():
    """The matrix is (target, source), a link (source, target): easily turned round."""
    weights = torch.tensor([[0.1, 0.9, 0.0], [0.7, 0.2, 0.1]])
    assert links_from_weights(weights) == {(1, 0), (0, 1)}
    assert links_from_weights(weights, threshold=0.8) == {(1, 0)}
    assert links_from_weights(weights, threshold=0.95) == set()
    exact = torch.tensor([[0.25, 0.75]])
    assert links_from_weights(exact, threshold=0.75) == {(1, 0)}, "a weight that is as large is not below"
    assert links_from_weights(exact, threshold=0.75001) == set()


def test_weights_may_come_in_any_form():
    rows = [[0.1, 0.9, 0.0], [0.7, 0.2, 0.1]]
    for weights in (rows, torch.tensor(rows), np.array(rows), [torch.tensor(row) for row in rows],
                    (np.array(row) for row in rows), [[torch.tensor(x) for x in row] for row in rows]):
        assert links_from_weights(weights) == {(1, 0), (0, 1)}


def test_a_row_that_saw_nothing_gives_no_link():
    assert links_from_weights(torch.tensor([[0.0, 0.0], [0.5, 0.5]])) == {(0, 1)}
    assert links_from_weights(torch.zeros(0, 3)) == set()
    assert links_from_weights(torch.zeros(2, 0)) == set()


def test_links_refuse_a_batch_and_nan():
    with pytest.raises(ValueError, match=r"weights has shape \(1, 2, 3\)"):
        links_from_weights(torch.ones(1, 2, 3))
    with pytest.raises(ValueError, match="NaN"):
        links_from_weights(torch.tensor([[float("nan"), 1.0]]))
    with pytest.raises(ValueError, match="threshold is nan"):
        links_from_weights(torch.ones(1, 2), threshold=math.nan)
    for weights in ("ab", [["a"]], [[0.1], [0.2, 0.3]], None, {"a": 1}):
        with pytest.raises(TypeError, match="weights is"):
            links_from_weights(weights)


def test_the_diagonal_by_hand():
    assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal_links(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal_links(4, 2) == {(1, 0), (3, 1)}
    assert diagonal_links(0, 2) == diagonal_links(2, 0) == set()
    with pytest.raises(ValueError, match="source_length -1"):
        diagonal_links(-1, 2)


def test_the_diagonal_of_lengths_that_are_tensors_holds_plain_numbers():
    """Links of tensors would be in no other set."""
    assert diagonal_links(torch.tensor(2), np.int64(4)) == diagonal_links(2, 4)
    with pytest.raises(TypeError):
        diagonal_links(2.5, 4)


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_diagonal_links_every_target_word_once_in_order(source_length, target_length):
    found = sorted(diagonal_links(source_length, target_length), key=lambda link: link[1])
    sources = [source for source, _ in found]
    assert [target for _, target in found] == list(range(target_length))
    assert sources == sorted(sources)
    assert sources[0] >= 0 and sources[-1] < source_length


# Perplexity


def test_perplexity_of_uniform_guessing_is_the_number_of_choices():
    assert perplexity(math.log(7)) == pytest.approx(7)
    assert perplexity(12 * math.log(7), 12) == pytest.approx(7)
    assert perplexity(0.0, 5) == 1


def test_perplexity_of_a_hopeless_model_is_infinite_not_an_error():
    assert perplexity(1000.0) == math.inf
    assert perplexity(math.inf) == math.inf
    assert perplexity(1000.0, 1000) == pytest.approx(math.e)
    assert math.isnan(perplexity(math.nan)), "a diverged loss must not look like a number"


def test_perplexity_refuses_no_tokens_and_negative_loss():
    with pytest.raises(ValueError, match="tokens 0"):
        perplexity(1.0, 0)
    with pytest.raises(ValueError, match="loss -1"):
        perplexity(-1.0, 3)


def test_a_loss_and_a_count_may_be_tensors():
    learned = torch.tensor(2.0, requires_grad=True)
    for loss in (torch.tensor(2.0), np.float64(2.0), torch.tensor([2.0]), learned):
        found = perplexity(loss, torch.tensor(2))
        assert type(found) is float and found == pytest.approx(math.e)
    assert perplexity(torch.tensor(1000.0)) == math.inf


@pytest.mark.parametrize("loss", ["2", b"2", None, [2.0], torch.ones(2), np.ones(2)], ids=repr)
def test_perplexity_names_what_is_no_number(loss):
    with pytest.raises(TypeError, match="loss is .*give one number"):
        perplexity(loss)
    with pytest.raises(TypeError, match="tokens is .*give one number"):
        perplexity(1.0, loss)


def test_perplexity_of_no_known_number_of_tokens_is_refused():
    with pytest.raises(ValueError, match="tokens nan"):
        perplexity(1.0, math.nan)


# Pointing


def test_pointing_by_hand():
    """Four words, two of which name something; the rows of the others do not count."""
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.6, 0.3, 0.1]])
    assert pointing_accuracy([weights], [{1: {1, 2}, 3: {2}}]) == 0.5
    assert pointing_accuracy([weights], [{1: {1}, 3: {0}}]) == 1
    assert pointing_accuracy([weights, weights], [{1: {0}}, {1: {1}, 3: {0}, 0: {2}}]) == 0.75


def test_cells_and_weights_may_come_in_any_form():
    """A cell that was an element of a tensor lay on no object."""
    rows = [[0.0, 0.0, 1.0], [0.2, 0.5, 0.3]]
    for weights in (torch.tensor([rows]), np.array([rows]), [rows], iter([rows]), [map(torch.tensor, rows)]):
        assert pointing_accuracy(weights, [{1: [1]}]) == 1
    for cells in (torch.tensor([1, 2]), np.array([1, 2]), list(torch.tensor([1, 2])), iter([1, 2]), {1, 2},
                  range(1, 3), {1: "a", 2: "b"}.keys()):
        assert pointing_accuracy([rows], [{1: cells}]) == 1
    assert pointing_accuracy([rows], iter([{np.int64(1): [1], torch.tensor(0): [2]}])) == 1
    assert pointing_accuracy([rows], [{0: []}]) == 0, "an object without cells is never met"


@pytest.mark.parametrize(
    ("weights", "objects", "error", "words"),
    [
        ([torch.ones(1, 2)], [{0: torch.ones(2).bool()}], TypeError, r"objects\[0\]\[0\] holds .*nonzero"),
        ([torch.ones(1, 2)], [{0: "01"}], TypeError, r"objects\[0\]\[0\] is the string"),
        ([torch.ones(1, 2)], [{0: 1}], TypeError, r"objects\[0\]\[0\] is 1: give a list"),
        ([torch.ones(1, 2)], [{0: [1.0]}], TypeError, r"objects\[0\]\[0\] holds"),
        ([torch.ones(1, 2)], [{0: [2]}], ValueError, r"holds cells 2 to 2: .* over cells 0 to 1"),
        ([torch.ones(1, 2)], [{0: [-1]}], ValueError, r"holds cells -1 to -1"),
        ([torch.ones(1, 2)], [[0]], TypeError, r"objects\[0\] is \[0\]: give {index of a word"),
        ([torch.ones(2)], [{0: [1]}], ValueError, r"weights\[0\] has shape \(2,\): give one image's"),
        ([torch.tensor([[math.nan, 1.0]])], [{0: [1]}], ValueError, r"weights\[0\] holds NaN"),
    ],
)
def test_pointing_names_what_is_no_cell_and_no_weight(weights, objects, error, words):
    with pytest.raises(error, match=words):
        pointing_accuracy(weights, objects)


def test_attention_that_saw_nothing_points_at_nothing():
    """The arg max of a row of zeros is cell 0, which may happen to be right."""
    assert pointing_accuracy([torch.zeros(1, 3)], [{0: {0}}]) == 0


def test_pointing_refuses_what_cannot_be_scored():
    weights = [torch.ones(2, 3)]
    with pytest.raises(ValueError, match="weights has 1 entries, objects has 2"):
        pointing_accuracy(weights, [{}, {}])
    with pytest.raises(ValueError, match=r"objects\[0\] names word 2: weights\[0\] has rows 0 to 1"):
        pointing_accuracy(weights, [{2: {0}}])
    with pytest.raises(ValueError, match="names no word"):
        pointing_accuracy(weights, [{}])
    with pytest.raises(ValueError, match="weights is empty"):
        pointing_accuracy([], [])


# Detection

A, B, FAR = [0.3, 0.3, 0.2, 0.2], [0.7, 0.3, 0.2, 0.4], [0.8, 0.85, 0.1, 0.1]
RECALLS = np.linspace(0, 1, 101)


def truth(*rows):
    """(label, box) of each object of one image."""
    return Objects(torch.tensor([label for label, _ in rows], dtype=torch.int64),
                   torch.tensor([box for _, box in rows]).reshape(-1, 4))


def said(*rows):
    """(label, score, box) of each answer for one image."""
    labels, scores, boxes = zip(*rows, strict=True) if rows else ((), (), ())
    labels = torch.tensor(labels, dtype=torch.int64)
    return Detections(labels, torch.tensor(scores), torch.tensor(boxes).reshape(-1, 4))


def precision_by_hand(found, objects, label, threshold):
    """The area under one class's curve, at 101 recalls, after COCO's description."""
    overlaps = [box_iou(to_corners(answers.boxes.double()), to_corners(shown.boxes.double()))
                for answers, shown in zip(found, objects, strict=True)]
    ranked = sorted(
        ((answers.scores[i].item(), image, i) for image, answers in enumerate(found)
         for i in range(len(answers.labels)) if answers.labels[i] == label), reverse=True,
    )
    claimed, hits = set(), []
    for _, image, i in ranked:
        free = [(overlaps[image][i, j].item(), j) for j in range(len(objects[image].labels))
                if objects[image].labels[j] == label and (image, j) not in claimed]
        overlap, j = max(free, default=(0.0, None))
        hits.append(overlap >= threshold)
        if hits[-1]:
            claimed.add((image, j))
    number = sum(int((shown.labels == label).sum()) for shown in objects)
    right = np.cumsum(hits)
    recall, precision = right / number, right / np.arange(1, len(hits) + 1)
    best = [precision[np.searchsorted(recall, r) :].max(initial=0.0) for r in RECALLS]
    return sum(best) / len(best)


def crowded(seed):
    """Six images of three classes: right answers, shifted ones, duplicates, wrong labels, inventions."""
    random, found, objects = torch.Generator().manual_seed(seed), [], []
    for count in (3, 5, 0, 4, 1, 6):
        boxes = torch.rand(count, 4, generator=random) * 0.4 + 0.2
        labels = torch.randint(3, (count,), generator=random)
        objects.append(Objects(labels, boxes))
        shifts = (torch.rand(2 * count, 4, generator=random) - 0.5) * 0.15 * torch.rand(1, generator=random)
        near = boxes.repeat(2, 1) + shifts
        answered = torch.cat([near, torch.rand(3, 4, generator=random) * 0.4 + 0.2])
        named = torch.cat([labels, labels, torch.randint(3, (3,), generator=random)])
        named = torch.where(torch.rand(len(named), generator=random) < 0.15, (named + 1) % 3, named)
        found.append(Detections(named, torch.rand(len(named), generator=random), answered))
    return found, objects


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_is_that_of_the_description(seed):
    """Surest first, each claims its best overlap; the best precision at each recall or beyond; class mean."""
    found, objects = crowded(seed)
    thresholds = np.linspace(0.5, 0.95, 10)
    table = np.array([[precision_by_hand(found, objects, label, threshold) for threshold in thresholds]
                      for label in range(3)]).mean(0)
    scores = average_precision(found, objects)
    assert scores == pytest.approx({"AP": table.mean(), "AP50": table[0], "AP75": table[5]}, abs=1e-6)
    assert 0.05 < scores["AP"] < scores["AP50"] < 0.95, "if all were right, it would prove little"
    assert all(type(score) is float for score in scores.values())


def test_all_found_and_nothing_else_is_perfect():
    objects = [truth((0, A), (1, B)), truth(), truth((1, A))]
    found = [said((1, 0.6, B), (0, 0.9, A)), said(), said((1, 0.2, A))]
    assert average_precision(found, objects) == pytest.approx({"AP": 1, "AP50": 1, "AP75": 1})


@pytest.mark.parametrize(("found", "objects", "expected"), [
    ([said((0, 0.9, A), (0, 0.8, A), (0, 0.7, B))], [truth((0, A), (0, B))], (51 + 50 * 2 / 3) / 101),
    ([said((0, 0.9, A), (0, 0.8, A))], [truth((0, A))], 1),
    ([said((0, 0.9, A), (0, 0.8, A))], [truth((0, A), (0, A))], 1),
    ([said((1, 0.9, A))], [truth((0, A))], 0),
    ([said((0, 0.9, A), (0, 0.8, B))], [truth((0, A), (1, B))], 1 / 2),
    ([said((0, 0.9, A), (7, 0.95, B))], [truth((0, A))], 1),
    ([said((0, 0.5, A)), said((0, 0.9, A))], [truth((0, A)), truth()], 1 / 2),
    ([said((0, 0.5, B)), said((0, 0.6, A))], [truth((0, A)), truth((0, B))], 0),
    ([said((0, 0.9, A)), said()], [truth((0, A)), truth((0, A))], 51 / 101),
    ([said((0, 0.5, FAR), (0, 0.4, A))], [truth((0, A))], 1 / 2),
], ids=["a duplicate before the last object", "a duplicate after all were found", "two objects in one place",
        "a wrong label", "one class of two", "a label that no image shows", "an image without objects",
        "boxes of the other image", "one object of two", "an invention that is surer"])
def test_average_precision_by_hand(found, objects, expected):
    """COCO reads the curve at 101 recalls, 0 included: half of the objects are 51 of them."""
    assert average_precision(found, objects)["AP50"] == pytest.approx(expected)


def test_a_loose_box_is_right_at_low_thresholds_only():
    """An IoU of 0.62 passes 0.5, 0.55 and 0.6: three thresholds of ten."""
    loose = [*A[:2], 0.62 * A[2], A[3]]
    scores = average_precision([said((0, 0.9, loose))], [truth((0, A))])
    assert scores == pytest.approx({"AP": 0.3, "AP50": 1, "AP75": 0})


@pytest.mark.parametrize("found", [[said(), said()], [said((5, 0.9, A)), said()]],
                         ids=["no answer", "none that counts"])
def test_a_model_that_finds_nothing_scores_0(found):
    """At the beginning of training it happens, and the evaluator cannot read an empty list."""
    assert average_precision(found, [truth((0, A)), truth((1, B))]) == {"AP": 0, "AP50": 0, "AP75": 0}


@pytest.mark.parametrize(("wrong", "label", "least"), [(99, 0, 0.009), (100, 0, 0), (100, 1, 1)])
def test_the_hundred_surest_answers_of_an_image_and_class_are_read(wrong, label, least):
    """The right one is the least sure; behind 100 of another class it is still read."""
    answers = said(*[(0, 0.9, FAR)] * wrong, (label, 0.1, A))
    assert average_precision([answers], [truth((label, A))])["AP50"] == pytest.approx(least, abs=2e-3)


def test_the_order_of_images_and_answers_does_not_matter():
    found, objects = crowded(0)
    turned = [Detections(*(part.flip(0) for part in answers)) for answers in found[::-1]]
    assert average_precision(turned, objects[::-1]) == pytest.approx(average_precision(found, objects))


def test_answers_may_be_arrays_and_come_once():
    found, objects = crowded(0)
    arrays = [Detections(*(part.numpy() for part in answers)) for answers in found]
    lists = [Objects(*(part.tolist() for part in shown)) if len(shown.labels) else shown for shown in objects]
    assert average_precision(iter(arrays), iter(lists)) == average_precision(found, objects)
    assert duplicate_share(iter(arrays)) == duplicate_share(found)


@pytest.mark.parametrize("given", [said((0, 0.9, A)), [truth((0, A))], [None], ["a"]], ids=repr)
def test_answers_of_another_kind_are_named(given):
    """The answers of one image in the place of a list of them, most of all."""
    for measure in (duplicate_share, lambda found: average_precision(found, [truth((0, A))] * len(found))):
        with pytest.raises(TypeError, match=r"detections\[0\] is a .*: give Detections for each image"):
            measure(given)
    with pytest.raises(TypeError, match=r"objects\[0\] is a Detections: give Objects for each image"):
        average_precision([said()], [said()])


def test_the_evaluator_is_silent(capfd, caplog):
    """It would otherwise fill a notebook with its table."""
    with caplog.at_level(logging.WARNING):
        average_precision(*crowded(0))
    assert capfd.readouterr() == ("", "") and not caplog.records


@pytest.mark.parametrize(("found", "objects", "words"), [
    ([said()], [truth((0, A)), truth()], "detections has 1 entries, objects has 2"),
    ([], [], "detections is empty"),
    ([said((0, 0.5, A))], [truth()], "objects holds no object"),
    ([said(), said((0, math.nan, A))], [truth((0, A)), truth()], r"detections\[1\].*not finite.*diverged"),
    ([said((0, 0.5, [0.5, 0.5, math.inf, 0.1]))], [truth((0, A))], r"detections\[0\].*not finite"),
    ([said((0, 0.5, A))], [truth((0, [*A[:3], math.nan]))], r"objects\[0\].*not finite"),
])
def test_average_precision_refuses_what_cannot_be_scored(found, objects, words):
    with pytest.raises(ValueError, match=words):
        average_precision(found, objects)


@pytest.mark.parametrize(("found", "expected"), [
    ([said((0, 0.9, A), (0, 0.8, A))], 1),
    ([said((0, 0.9, A), (3, 0.8, A))], 1),
    ([said((0, 0.9, A), (0, 0.5, A))], 0),
    ([said((0, 0.9, A), (0, 0.8, B))], 0),
    ([said((0, 0.9, A))], 0),
    ([said()], 0),
    ([said((0, 0.9, A), (0, 0.9, A), (0, 0.9, A)), said((0, 0.9, A)), said(), said()], 1 / 4),
    ([said((0, 0.9, A), (0, 0.8, [*A[:2], 0.49 * A[2], A[3]]))], 0),
    ([said((0, 0.9, A), (0, 0.8, [*A[:2], 0.52 * A[2], A[3]]))], 1),
    ([said((0, 0.9, [0.5, 0.5, 0.5, 0.5]), (0, 0.8, [0.5, 0.5, 0.25, 0.5]))], 0),
], ids=["twice", "under two names", "not sure enough", "in two places", "once", "nothing",
        "an image counts once", "less than half in common", "more than half in common",
        "just half in common"])
def test_the_share_of_images_with_a_duplicate_by_hand(found, expected):
    """A box overlaps itself: only pairs of different answers count."""
    assert duplicate_share(found) == expected


def test_what_counts_as_a_duplicate_can_be_chosen():
    found = [said((0, 0.9, A), (0, 0.4, [*A[:2], 0.3 * A[2], A[3]]))]
    assert duplicate_share(found, score=0.3) == duplicate_share(found, overlap=0.2) == 0
    assert duplicate_share(found, score=0.3, overlap=0.2) == 1
    with pytest.raises(ValueError, match="detections is empty"):
        duplicate_share([])
    for option in ({"score": math.nan}, {"score": 2.0}, {"overlap": -0.1}, {"overlap": math.nan}):
        with pytest.raises(ValueError, match=f"{next(iter(option))} is .*between 0 and 1"):
            duplicate_share(found, **option)
    with pytest.raises(ValueError, match=r"detections\[0\].*not finite"):
        duplicate_share([said((0, math.nan, A))])
