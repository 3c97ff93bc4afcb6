"""The pretrained encoder's heads: patterns on made-up weights, and stored maps that are the real ones."""

from importlib.util import find_spec

import pytest
import torch

from attncourse.experiments import load_results, pretrained_heads
from attncourse.experiments.pretrained_heads import (
    SENTENCES,
    SYSTEM,
    describe_heads,
    head_names,
    head_table,
    packed,
    patterns,
    unpacked,
)
from attncourse.models.pretrained import INSTALL, WEIGHTS, SentenceHeads

TOKENS = ["[CLS]", "the", "cat", "saw", "the", "dog", ".", "[SEP]"]


def heads_that_do(pattern: str, tokens=TOKENS) -> SentenceHeads:
    """One layer of one head, which reads by the pattern, and itself where the pattern gives it nothing."""
    reads = patterns(tokens)[pattern].double()
    idle = ~reads.any(-1, keepdim=True) * torch.eye(len(tokens)).double()
    weights = reads / reads.sum(-1, keepdim=True).clamp(min=1) + idle
    return SentenceHeads(tokens, weights[None, None])


@pytest.mark.parametrize(("name", "reads"), [
    ("previous word", {2: 1, 3: 2, 4: 3, 5: 4, 6: 5}),
    ("next word", {1: 2, 2: 3, 3: 4, 4: 5, 5: 6}),
    ("itself", {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}),
    ("its repetition", {1: 4, 4: 1}),
    ("full stop", dict.fromkeys(range(1, 6), 6)),
    ("[CLS]", dict.fromkeys(range(1, 7), 0)),
    ("[SEP]", dict.fromkeys(range(1, 7), 7)),
])
def test_a_pattern_says_who_reads_whom(name, reads):
    """Row and column swapped, the previous word is the next; and [CLS] is nobody's neighbour."""
    assert patterns(TOKENS)[name].nonzero().tolist() == [list(pair) for pair in reads.items()]


@pytest.mark.parametrize("name", list(patterns(TOKENS)))
def test_a_head_that_does_one_thing_is_described_and_named_by_it(name):
    table = describe_heads([heads_that_do(name), heads_that_do(name, ["[CLS]", *"abbc.", "[SEP]"])])
    assert table[name].item() == pytest.approx(1.0), "words without anything to read by it must not count"
    assert table["spread"].item() == pytest.approx(0.0)
    if name != "itself":
        assert table["itself"].item() < 1
    assert head_names(table) == {(0, 0): name}


def test_a_head_that_reads_all_alike_is_broad():
    even = SentenceHeads(TOKENS, torch.full((2, 3, 8, 8), 1 / 8))
    table = describe_heads([even])
    assert table["spread"].shape == (2, 3)
    torch.testing.assert_close(table["spread"], torch.ones(2, 3))
    torch.testing.assert_close(table["previous word"], torch.full((2, 3), 1 / 8))
    assert set(head_names(table).values()) == {"broad"} and len(head_names(table)) == 6


def test_every_word_counts_the_same():
    """The mean of the sentences' means counts the words of short sentences for more."""
    short, long = ["[CLS]", *"ab", "[SEP]"], ["[CLS]", *"abcde", "[SEP]"]
    described = describe_heads([heads_that_do("previous word", short), heads_that_do("next word", long)])
    assert described["previous word"].item() == pytest.approx(1 / 5)


def test_a_pattern_that_no_word_has_is_left_out():
    table = describe_heads([heads_that_do("next word", ["[CLS]", *"abc", "[SEP]"])])
    assert not {"its repetition", "full stop"} & table.keys()
    assert head_names(table) == {(0, 0): "next word"}


def test_no_sentence_is_refused():
    with pytest.raises(ValueError, match="sentences is empty"):
        describe_heads([])


def test_what_is_packed_comes_back_to_three_decimals():
    weights = torch.rand(2, 3, 8, 8).softmax(-1)
    tokens, found = unpacked(packed("the cat", SentenceHeads(TOKENS, weights)))
    assert tokens == TOKENS
    torch.testing.assert_close(found, weights, atol=5.01e-4, rtol=0)


@pytest.mark.parametrize("text", SENTENCES)
def test_a_stored_sentence_needs_no_encoder(text, monkeypatch):
    """The page's output must not depend on what is installed."""
    monkeypatch.setattr(pretrained_heads, "_encoder", None)
    tokens, weights = pretrained_heads.pretrained_heads(text)
    assert weights.shape == (6, 12, len(tokens), len(tokens))
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=0.009, rtol=0)


def test_another_sentence_is_read_by_the_encoder(monkeypatch):
    class Echo:
        def heads_of(self, text):
            return SentenceHeads(text.split(), torch.ones(1, 1, 1, 1))

    monkeypatch.setattr(pretrained_heads, "_encoder", Echo)
    assert pretrained_heads.pretrained_heads("hello").tokens == ["hello"]


def test_the_stored_table_names_the_heads_that_the_chapter_shows():
    table, names = head_table(), head_names(head_table())
    assert table.keys() == {*patterns(TOKENS), "spread"}
    assert all(share.shape == (6, 12) for share in table.values())
    [share] = load_results("pretrained_heads").values(SYSTEM, "next word/2.9")
    assert table["next word"][1, 8].item() == pytest.approx(share)
    assert names[0, 2] == "previous word" and names[1, 8] == "next word", "is the table read head by head?"
    assert {"its repetition", "full stop", "[CLS]", "broad"} <= set(names.values())


def test_what_is_stored_is_what_the_encoder_reads():
    if not all(map(find_spec, (WEIGHTS, "safetensors", "tokenizers"))):
        pytest.skip(f"the pretrained encoder is not installed: {INSTALL}")
    encoder = pretrained_heads._encoder()
    for text in SENTENCES:
        stored, read = pretrained_heads.pretrained_heads(text), encoder.heads_of(text)
        assert stored.tokens == read.tokens
        torch.testing.assert_close(stored.weights, read.weights, atol=6e-4, rtol=0)
