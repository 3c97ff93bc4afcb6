"""DocumentView as HTML, the table it leaves to readers without scripts, and what it asks of its weights."""

import re

import pytest
import torch

from attncourse.viewer import DocumentView

WORDS = [["the", "plot"], ["it", "is", "dull"]]
WITHIN, SENTENCES = [[0.5, 0.5], [0.1, 0.1, 0.8]], [0.25, 0.75]


def test_the_same_data_give_the_same_bytes():
    first, second = (DocumentView(WORDS, WITHIN, SENTENCES)._repr_html_() for _ in range(2))
    assert first == second


def test_repr_has_no_address():
    assert repr(DocumentView(WORDS, WITHIN, SENTENCES)) == "DocumentView(2 sentences, 5 words)"


def test_padding_is_dropped(data_of):
    """The weights of a batch, as a model returns them: rows as long as the longest, and empty sentences."""
    padded = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.1, 0.8], [0.0, 0.0, 0.0]], requires_grad=True)
    plain = data_of(DocumentView(WORDS, WITHIN, SENTENCES))
    assert data_of(DocumentView(WORDS, padded, torch.tensor([0.25, 0.75, 0.0]))) == plain


def test_weights_over_all_words_are_split_by_sentence(data_of):
    """One softmax over the document: a sentence weighs what its words weigh, and the product is as before."""
    over_all = [[0.05, 0.05], [0.1, 0.2, 0.6]]
    data = data_of(DocumentView(WORDS, over_all))
    assert data["sentenceWeights"] == pytest.approx([0.1, 0.9])
    assert data["wordWeights"][0] == pytest.approx([0.5, 0.5])
    for row, weight, whole in zip(data["wordWeights"], data["sentenceWeights"], over_all, strict=True):
        assert [w * weight for w in row] == pytest.approx(whole, abs=1e-4)


def test_a_sentence_without_weight_divides_nothing_by_zero(data_of):
    data = data_of(DocumentView(WORDS, [[0.0, 0.0], [0.2, 0.2, 0.6]]))
    assert data["wordWeights"][0] == [0, 0] and data["sentenceWeights"] == [0, 1]


def test_readers_without_scripts_find_a_table():
    html = DocumentView(WORDS, WITHIN, SENTENCES, title="What decides?", prediction="bad", label="good",
                        deciding=1, deciding_words=[2])._repr_html_()
    assert "(the model says: bad; in truth: good; sentence 2 decides; by its word 3)" in html
    assert '<th scope="row">2</th><td>0.75</td><td>it 0.10, is 0.10, dull 0.80</td>' in html


def test_nothing_is_asked_of_the_network_and_no_word_becomes_markup():
    html = DocumentView([["</script><b>"]], [[1.0]], [1.0], title="<b>", label="<b>")._repr_html_()
    assert set(re.findall(r"https?://[^\s\"']+", html)) == {"http://www.w3.org/2000/svg"}
    assert "<b>" not in html and html.count("<script") == 2


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"words": "the plot"}, TypeError, "words must be a list of sentences"),
    ({"words": ["the plot", "it is dull"]}, TypeError, r"words\[0\] must be a list of tokens"),
    ({"words": []}, ValueError, "words is empty"),
    ({"words": [["the", "plot"], []]}, ValueError, r"words\[1\] is empty"),
    ({"word_weights": WITHIN[:1]}, ValueError, "word_weights has 1 rows for 2 sentences"),
    ({"word_weights": [*WITHIN, [1.0]]}, ValueError, "word_weights has 3 rows for 2 sentences"),
    ({"word_weights": [[1.0], WITHIN[1]]}, ValueError, r"word_weights\[0\] has shape \(1,\) for 2 words"),
    ({"word_weights": [[0.5, 0.25, 0.25], WITHIN[1]]}, ValueError, "or longer with zeros behind"),
    ({"word_weights": [[0.5, 0.6], WITHIN[1]]}, ValueError, "the row of query 'sentence 0' .* sums to 1.1"),
    ({"word_weights": [[1.5, -0.5], WITHIN[1]]}, ValueError, "key 'plot' .* a weight is never negative"),
    ({"sentence_weights": [0.5, 0.25]}, ValueError, "the row of query 'the document' .* sums to 0.75"),
    ({"sentence_weights": [1.0]}, ValueError, r"sentence_weights has shape \(1,\) for 2 sentences"),
    ({"sentence_weights": None}, ValueError, "the row of query 'the document' .* sums to 2"),
    ({"deciding": 2}, ValueError, "deciding is 2; it must be a sentence, from 0 to 1"),
    ({"deciding": -1}, ValueError, "deciding is -1"),
    ({"deciding": 0, "deciding_words": [2]}, ValueError, "deciding_words holds 2, .* sentence has 2 words"),
    ({"deciding_words": [0]}, ValueError, "deciding_words holds 0, but the deciding sentence has 0 words"),
])
def test_errors_name_the_argument(change, error, message):
    given = {"words": WORDS, "word_weights": WITHIN, "sentence_weights": SENTENCES, **change}
    with pytest.raises(error, match=message):
        DocumentView(given.pop("words"), given.pop("word_weights"), given.pop("sentence_weights"), **given)
