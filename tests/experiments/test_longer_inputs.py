"""Hands of cards: one right answer in any position, and readers that see what their docstrings say."""

import pytest
import torch

from attncourse.experiments.longer_inputs import (
    COLOURS,
    MIXINGS,
    MOST,
    NUMBERS,
    CardBatches,
    CardReader,
    FullyConnected,
    card_accuracy,
    draw_cards,
    fit_cards,
    say_cards,
)


@pytest.mark.parametrize("cards", [1, 4, 8, 32])
def test_one_card_has_the_colour_asked_for_and_its_number_is_the_answer(cards):
    """Read off the words: two cards of the colour would have two answers."""
    hands = draw_cards(200, cards, seed=1)
    assert hands.ids.shape == (200, 1 + cards)
    for ids, answer in zip(hands.ids, hands.answers.tolist(), strict=True):
        question, *rest = say_cards(ids)
        asked = question.removesuffix("?")
        assert asked in COLOURS and question.endswith("?")
        assert [word.split()[1] for word in rest if word.split()[0] == asked] == [str(answer)]


def test_the_card_lies_anywhere_and_everything_is_drawn():
    """If a position told something, fixed weights would do."""
    hands = draw_cards(4_000, 8, seed=2)
    question = hands.ids[:, 0] - NUMBERS * len(COLOURS)
    place = (hands.ids[:, 1:] // NUMBERS == question[:, None]).int().argmax(-1)
    for found, size in ((place, 8), (question, len(COLOURS)), (hands.answers, NUMBERS)):
        counts = found.bincount(minlength=size)
        assert counts.min() > 400 and counts.max() < 600, f"not even: {counts.tolist()}"


def test_a_step_is_repeatable_and_training_hands_are_short():
    batches = CardBatches(size=5, seed=3)
    assert torch.equal(batches[7].ids, CardBatches(size=5, seed=3)[7].ids)
    assert not torch.equal(batches[7].ids, CardBatches(size=5, seed=4)[7].ids)
    assert {batches[step].ids.shape[1] - 1 for step in range(10)} == {4, 5, 6, 7, 8}
    torch.manual_seed(0)
    before = torch.get_rng_state()
    batches[0]
    assert torch.equal(before, torch.get_rng_state())


def test_a_fully_connected_layer_has_a_matrix_for_each_position_and_none_beyond():
    """By a plain sum; longer inputs are cut, shorter ones use the first matrices."""
    torch.manual_seed(0)
    layer = FullyConnected(4, 3).double()
    x = torch.randn(2, 6, 3).double()
    matrices = layer.weights.weight.unflatten(1, (4, 3))
    for length in (2, 4, 6):
        expected = layer.weights.bias + sum(x[:, j] @ matrices[:, j].T for j in range(min(length, 4)))
        torch.testing.assert_close(layer(x[:, :length]), expected)
    assert torch.equal(layer(x), layer(x[:, :4])), "what lies beyond has no weight"


@pytest.mark.parametrize("mixing", ["self-attention", "mean"])
def test_where_weights_are_made_or_even_the_order_of_the_cards_does_not_matter(mixing):
    torch.manual_seed(0)
    model, ids = CardReader(mixing), draw_cards(6, 5, seed=0).ids
    order = torch.tensor([0, 4, 2, 5, 1, 3])
    torch.testing.assert_close(model(ids), model(ids[:, order]))
    assert model.fixed is None


def test_readers_differ_in_what_lies_between_positions_alone():
    count = {m: sum(p.numel() for p in CardReader(m).parameters()) for m in MIXINGS}
    assert count["self-attention"] == count["mean"]
    assert count["fully connected"] - count["mean"] == (1 + MOST) * 32 * 32 + 32


def test_self_attention_finds_the_card_on_longer_hands_too():
    """A short training; the stored table has the long one."""
    model = fit_cards("self-attention", steps=1_000, device="cpu", progress=False)
    assert card_accuracy(model, 8, 500) > 0.95
    assert card_accuracy(model, 16, 500) > 0.85


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CardReader("convolution"), "mixing is 'convolution': choose one of self-attention"),
        (lambda: draw_cards(0, 4, 0), "count is 0"),
        (lambda: draw_cards(3, 0, 0), "cards is 0"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
