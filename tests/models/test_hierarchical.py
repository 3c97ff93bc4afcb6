"""The hierarchical classifier: words stay in their sentences, padding is not read, one thing differs."""

import pytest
import torch
from torch import nn

from attncourse.models import HierarchicalAttentionNetwork
from attncourse.models.hierarchical import POOLINGS

VOCABULARY, CLASSES = 11, 3
DOCUMENTS = [[[4, 5, 6], [7, 8]], [[9]], [], [[5, 4, 7, 10], [6], [8, 9]]]


def build(pooling="attention", dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    sizes = {"embedding": 4, "hidden": 3, **sizes}
    model = HierarchicalAttentionNetwork(VOCABULARY, CLASSES, pooling=pooling, **sizes).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def padded(documents, sentences=None, words=None, filling=0):
    """(documents, words, sentences) with so many columns, padded with `filling`."""
    sentences = sentences or max([1, *map(len, documents)])
    words = words or max([1, *(len(s) for d in documents for s in d)])
    ids = torch.full((len(documents), sentences, words), filling)
    lengths = torch.zeros(len(documents), sentences, dtype=torch.int64)
    for i, document in enumerate(documents):
        for j, sentence in enumerate(document):
            ids[i, j, : len(sentence)] = torch.tensor(sentence)
            lengths[i, j] = len(sentence)
    return ids, lengths, torch.tensor([len(document) for document in documents])


def framework_states(level, parts):
    """A sequence through the framework's own two-way GRU, with the level's weights: states, final state."""
    hidden = level.forward_reader.hidden_size
    both = nn.GRU(parts.shape[1], hidden, bidirectional=True, batch_first=True).double()
    with torch.no_grad():
        for ending, reader in (("", level.forward_reader), ("_reverse", level.backward_reader)):
            for name, value in reader.named_parameters():
                getattr(both, name + ending).copy_(value)
        states, final = both(parts[None])
    return states[0], final.flatten()


@torch.no_grad()
def by_hand(level, parts):
    """Yang et al. 2016, section 2.2, for one sentence or one document."""
    states, final = framework_states(level, parts)
    if level.pooling == "last":
        return final, None
    if level.pooling == "mean":
        return states.mean(0), torch.full((len(states),), 1 / len(states), dtype=states.dtype)
    pool = level.attention
    u = torch.tanh(states @ pool.hidden.weight.T + pool.hidden.bias)
    alpha = (u @ pool.query[0]).exp()
    alpha = alpha / alpha.sum()
    return sum(a * h for a, h in zip(alpha, states, strict=True)), alpha


@pytest.mark.parametrize("pooling", POOLINGS)
def test_equals_the_paper_sentence_by_sentence(pooling):
    """Each sentence alone through the framework's GRU, then each document alone."""
    model = build(pooling)
    found = model(*padded(DOCUMENTS))
    for i, document in enumerate(DOCUMENTS):
        if not document:
            continue
        embedded = [model.embedding(torch.tensor(sentence)).detach() for sentence in document]
        rows = [by_hand(model.words, sentence) for sentence in embedded]
        vector, weights = by_hand(model.sentences, torch.stack([row[0] for row in rows]))
        torch.testing.assert_close(found.logits[i], model.output(vector))
        if pooling != "last":
            torch.testing.assert_close(found.sentence_weights[i, : len(document)], weights)
            for j, (_, alpha) in enumerate(rows):
                torch.testing.assert_close(found.word_weights[i, j, : len(alpha)], alpha)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_a_batch_changes_nothing(pooling):
    """More words, more sentences, other ids in the padding: nothing of it may be read."""
    model, expected = build(pooling), build(pooling)(*padded(DOCUMENTS))
    for options in ({"words": 7}, {"sentences": 6}, {"sentences": 5, "words": 6, "filling": 9}):
        found = model(*padded(DOCUMENTS, **options))
        torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-12,
                                   msg=lambda text: f"padding was read\n{text}")
        if pooling == "last":
            continue
        assert (found.word_weights[:, :, 4:] == 0).all() and (found.word_weights[:, 3:] == 0).all()
        assert (found.sentence_weights[:, 3:] == 0).all(), "a sentence of padding has a weight"
        torch.testing.assert_close(found.sentence_weights[:, :3], expected.sentence_weights)
        torch.testing.assert_close(found.word_weights[:, :3, :4], expected.word_weights)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_document_does_not_depend_on_its_batch(pooling):
    """A softmax over the wrong axis: in a batch of one, all weights are 1."""
    model = build(pooling)
    together = model(*padded(DOCUMENTS))
    for i, document in enumerate(DOCUMENTS):
        alone, pair = model(*padded([document])), model(*padded([document, DOCUMENTS[0]]))
        for other in (alone, pair):
            torch.testing.assert_close(other.logits[0], together.logits[i])
            if pooling != "last" and document:
                weights = other.sentence_weights[0, : len(document)]
                torch.testing.assert_close(weights, together.sentence_weights[i, : len(document)])


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_weights_sum_to_1_where_there_is_something_to_read(pooling):
    found = build(pooling)(*padded(DOCUMENTS, sentences=4, words=6))
    real = torch.tensor([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]).double()
    torch.testing.assert_close(found.word_weights.sum(-1), real, msg="within each sentence")
    torch.testing.assert_close(found.sentence_weights.sum(-1), real.amax(-1), msg="over the sentences")


def test_the_last_state_has_no_weights():
    found = build("last")(*padded(DOCUMENTS))
    assert found.word_weights is None and found.sentence_weights is None


def test_words_see_nothing_beyond_their_sentence():
    model = build()
    before = model.read_words(*padded(DOCUMENTS))[0]
    changed = [[[4, 5, 6], [10, 10]], *DOCUMENTS[1:]]
    after = model.read_words(*padded(changed))[0]
    assert torch.equal(before[0, 0], after[0, 0]) and not torch.allclose(before[0, 1], after[0, 1])


def test_a_sentence_beyond_the_end_is_padding_whatever_its_words():
    """The number of sentences decides, also where words are left over from a longer document."""
    model, (ids, words, _) = build(), padded(DOCUMENTS[3:])
    found, expected = model(ids, words, torch.tensor([2])), model(*padded([DOCUMENTS[3][:2]]))
    torch.testing.assert_close(found.logits, expected.logits)
    assert not found.word_weights[0, 2].any()


def test_the_poolings_differ_in_the_attention_alone():
    """Else a better score could be bought by another reader."""
    names = {pooling: {name for name, _ in build(pooling).named_parameters()} for pooling in POOLINGS}
    assert names["mean"] == names["last"] < names["attention"]
    assert all(".attention." in name for name in names["attention"] - names["mean"])
    extra = [sum(p.numel() for p in build(pooling).parameters()) for pooling in ("attention", "mean")]
    assert extra[0] - extra[1] == 2 * (6 * 6 + 6 + 6), "W, b and u for words and for sentences"


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_parameter_learns_and_empty_documents_give_no_nan(pooling):
    model = build(pooling)
    model(*padded(DOCUMENTS)).logits.log_softmax(-1)[:, 1].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), f"{name}: NaN, or none"
        assert parameter.grad.any(), f"{name} does not learn"
    assert not model.embedding.weight.grad[0].any(), "padding got a gradient"


def test_gradients_are_those_of_finite_differences():
    model = build(embedding=2, hidden=2)
    names, values = zip(*model.named_parameters(), strict=True)
    values = [value.detach().requires_grad_() for value in values]

    def logits(*chosen):
        weights = dict(zip(names, chosen, strict=True))
        return torch.func.functional_call(model, weights, padded(DOCUMENTS)).logits

    assert torch.autograd.gradcheck(logits, values, fast_mode=True)


IDS, WORDS, SENTENCES = padded(DOCUMENTS)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: build("max"), ValueError, "pooling is 'max': choose from attention, mean, last"),
        (lambda: build()(IDS.float(), WORDS, SENTENCES), TypeError, "documents is torch.float32"),
        (lambda: build()(IDS, WORDS.float(), SENTENCES), TypeError, "words is torch.float32"),
        (lambda: build()(IDS, WORDS, SENTENCES > 0), TypeError, "sentences is torch.bool"),
        (lambda: build()(IDS[0], WORDS, SENTENCES), ValueError, r"documents has shape \(3, 4\)"),
        (lambda: build()(IDS[:, :0], WORDS[:, :0], SENTENCES), ValueError, "one word at least"),
        (lambda: build()(IDS, WORDS[:, :2], SENTENCES), ValueError, r"words has shape \(4, 2\)"),
        (lambda: build()(IDS, WORDS, SENTENCES[:3]), ValueError, r"sentences has shape \(3,\)"),
        (lambda: build()(IDS + 1, WORDS, SENTENCES), ValueError, "documents .* 1 to 11.* 0 and 10"),
        (lambda: build()(IDS, WORDS + 1, SENTENCES), ValueError, "words .* 1 to 5.* 0 and 4"),
        (lambda: build()(IDS, WORDS, SENTENCES - 1), ValueError, "sentences .* -1 to 2.* 0 and 3"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_lengths_may_be_small_integers(pooling, dtype):
    """An unsigned length of 0, less one, is 255."""
    documents, words, sentences = padded(DOCUMENTS)
    found = build(pooling)(documents, words.to(dtype), sentences.to(dtype))
    torch.testing.assert_close(found.logits, build(pooling)(documents, words, sentences).logits)


def test_only_a_gru_has_a_last_state():
    with pytest.raises(ValueError, match="pooling is 'last' and hidden is None: only a GRU has a last state"):
        HierarchicalAttentionNetwork(VOCABULARY, CLASSES, pooling="last", hidden=None)
