"""The pretrained encoder against the framework's layers, weight for weight, and against real numbers."""

import json
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attncourse.models import BertEncoder, PretrainedEncoder
from attncourse.models.pretrained import INSTALL, WEIGHTS

# An epsilon so large that it is seen when it does not arrive.
CONFIG = {
    "model_type": "bert", "hidden_act": "gelu", "vocab_size": 11, "hidden_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 3, "intermediate_size": 12, "max_position_embeddings": 9, "type_vocab_size": 2,
    "layer_norm_eps": 0.1,
}
SOURCE = torch.tensor([[1, 4, 5, 6, 4, 2], [1, 10, 7, 2, 0, 0], [1, 2, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 4, 2])


def state() -> dict[str, torch.Tensor]:
    """Random weights under the names of Hugging Face's BertModel."""
    shapes = {
        "embeddings.word_embeddings.weight": (11, 8),
        "embeddings.position_embeddings.weight": (9, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        "embeddings.LayerNorm.weight": (8,),
        "embeddings.LayerNorm.bias": (8,),
    }
    for i in range(3):
        layer = f"encoder.layer.{i}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense"):
            shapes |= {f"{layer}.{name}.weight": (8, 8), f"{layer}.{name}.bias": (8,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (8,), f"{layer}.{name}.bias": (8,)}
        shapes |= {f"{layer}.intermediate.dense.weight": (12, 8), f"{layer}.intermediate.dense.bias": (12,),
                   f"{layer}.output.dense.weight": (8, 12), f"{layer}.output.dense.bias": (8,)}
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def framework_layer(state, i) -> nn.TransformerEncoderLayer:
    """Layer i in the framework's own class, which keeps W^Q, W^K and W^V one above the other."""
    layer = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, activation="gelu", layer_norm_eps=0.1, batch_first=True, norm_first=False
    )
    theirs = {name.removeprefix(f"encoder.layer.{i}."): value for name, value in state.items()}
    projections = ["attention.self.query", "attention.self.key", "attention.self.value"]
    renamed = {
        f"self_attn.in_proj_{kind}": torch.cat([theirs[f"{name}.{kind}"] for name in projections])
        for kind in ("weight", "bias")
    }
    for name, theirs_name in {
        "self_attn.out_proj": "attention.output.dense", "norm1": "attention.output.LayerNorm",
        "linear1": "intermediate.dense", "linear2": "output.dense", "norm2": "output.LayerNorm",
    }.items():
        renamed |= {f"{name}.{kind}": theirs[f"{theirs_name}.{kind}"] for kind in ("weight", "bias")}
    layer.load_state_dict(renamed)
    return layer


def reference(state, source, lengths):
    """States and weights, layer by layer, from the framework's layers and the embeddings written out."""
    padding = torch.arange(source.shape[1]) >= lengths[:, None]
    x = (
        state["embeddings.word_embeddings.weight"][source]
        + state["embeddings.position_embeddings.weight"][: source.shape[1]]
        + state["embeddings.token_type_embeddings.weight"][0]
    )
    x = F.layer_norm(x, (8,), state["embeddings.LayerNorm.weight"], state["embeddings.LayerNorm.bias"], 0.1)
    weights = []
    for i in range(3):
        layer = framework_layer(state, i)
        weights.append(layer.self_attn(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1])
        x = layer(x, src_key_padding_mask=padding)
    return x, weights


@pytest.fixture
def model() -> BertEncoder:
    return BertEncoder.from_hugging_face(CONFIG, state())


@pytest.mark.parametrize("need_weights", [True, False])
def test_it_is_the_framework_s_encoder_weight_for_weight(model, need_weights):
    """Query and key swapped, the tanh form of GELU, pre-norm, a forgotten segment: each is nearly right."""
    expected, expected_weights = reference(state(), SOURCE, LENGTHS)
    states, weights = model(SOURCE, LENGTHS, need_weights=need_weights)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(states[row, :length], expected[row, :length], atol=1e-5, rtol=0)
        if need_weights:
            for ours, theirs in zip(weights, expected_weights, strict=True):
                torch.testing.assert_close(ours[row, :, :length], theirs[row, :, :length], atol=1e-5, rtol=0)
    assert need_weights or weights == [None] * 3


def test_padding_a_batch_changes_nothing(model):
    """A padded position that is read moves every number of the shorter sentences."""
    states, weights = model(SOURCE, LENGTHS, need_weights=True)
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        alone, alone_weights = model(source, lengths, need_weights=True)
        torch.testing.assert_close(states[row, :length], alone[0], atol=1e-5, rtol=0)
        for padded, unpadded in zip(weights, alone_weights, strict=True):
            torch.testing.assert_close(padded[row, :, :length, :length], unpadded[0], atol=1e-5, rtol=0)
            assert (padded[row, ..., length:] == 0).all(), "padding has weight: is the mask passed on?"


def test_nothing_is_dropped(model):
    """The maps of a model that was left in training mode must not depend on chance."""
    states, _ = model.train()(SOURCE, LENGTHS)
    assert torch.equal(states, model.eval()(SOURCE, LENGTHS)[0])


def test_what_only_some_training_tasks_use_is_passed_over(model):
    extra = {
        "embeddings.position_ids": torch.arange(9)[None],
        "pooler.dense.weight": torch.randn(8, 8),
        "pooler.dense.bias": torch.randn(8),
    }
    other = BertEncoder.from_hugging_face(CONFIG, state() | extra)
    assert torch.equal(other(SOURCE, LENGTHS)[0], model(SOURCE, LENGTHS)[0])


def with_a_task() -> dict[str, torch.Tensor]:
    return {f"bert.{name}": value for name, value in state().items()} | {
        "cls.predictions.bias": torch.randn(11), "cls.predictions.transform.LayerNorm.weight": torch.randn(8),
        "bert.pooler.dense.weight": torch.randn(8, 8), "bert.pooler.dense.bias": torch.randn(8),
    }


def from_tensorflow() -> dict[str, torch.Tensor]:
    def old(name):
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    return {old(name): value for name, value in with_a_task().items()}


@pytest.mark.parametrize("stored", [with_a_task, from_tensorflow])
def test_a_bert_with_a_task_gives_its_encoder(model, stored):
    """bert-base-uncased is stored so: every name begins with "bert.", and a layer norm has gamma and beta."""
    other = BertEncoder.from_hugging_face(CONFIG, stored())
    assert torch.equal(other(SOURCE, LENGTHS)[0], model(SOURCE, LENGTHS)[0])


def test_an_old_config_says_nothing_of_epsilon():
    config = {name: value for name, value in CONFIG.items() if name != "layer_norm_eps"}
    assert BertEncoder.from_hugging_face(config, state()).norm.eps == 1e-12


def test_weights_of_another_architecture_are_named_in_one_line():
    """Hundreds of missing names hide the cause: these are not the weights of a BERT."""
    other = {f"transformer.h.{i}.attn.c_attn.weight": torch.zeros(1) for i in range(200)}
    with pytest.raises(ValueError, match="of 53 weights; it holds .* and 197 more instead: are") as caught:
        BertEncoder.from_hugging_face(CONFIG, other)
    assert len(str(caught.value)) < 600
    with pytest.raises(ValueError, match="config lacks vocab_size, hidden_size"):
        BertEncoder.from_hugging_face({"model_type": "bert"}, state())


@pytest.mark.parametrize(("config", "change", "message"), [
    ({"hidden_act": "gelu_new"}, {}, r"config\['hidden_act'\] is 'gelu_new': this model can only be 'gelu'"),
    ({"model_type": "roberta"}, {}, "this model can only be 'bert'"),
    ({"position_embedding_type": "relative_key"}, {}, "can only be 'absolute'"),
    ({}, {"encoder.layer.2.output.dense.bias": None}, "state lacks encoder.layer.2.output.dense.bias"),
    ({"num_hidden_layers": 2}, {},
     "state holds encoder.layer.2.attention.output.LayerNorm.bias, .* and 13 more: .*no place"),
    ({"vocab_size": 12}, {}, r"word_embeddings.weight'\] has shape \(11, 8\): config asks for \(12, 8\)"),
])
def test_another_model_is_refused(config, change, message):
    """A weight that is left at its random start, or not used, gives numbers that look like a result."""
    weights = {name: value for name, value in (state() | change).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        BertEncoder.from_hugging_face(CONFIG | config, weights)


def test_a_sequence_with_more_tokens_than_positions_is_refused(model):
    with pytest.raises(ValueError, match="10 positions and longest is 9: row 0 has 10 words"):
        model(torch.ones(1, 10, dtype=torch.long), torch.tensor([10]))


class Words:
    """A tokenizer of whole words for the tiny model."""

    def encode(self, text):
        tokens = ["[CLS]", *text.split(), "[SEP]"]
        return SimpleNamespace(tokens=tokens, ids=[1, *[3 + len(word) for word in text.split()], 2])


def test_a_text_becomes_tokens_and_every_head_s_weights(model):
    tokens, weights = PretrainedEncoder(model, Words()).heads_of("a bb ccc")
    assert tokens == ["[CLS]", "a", "bb", "ccc", "[SEP]"]
    assert weights.shape == (3, 2, 5, 5), "layers, heads, tokens that read, tokens that are read"
    _, expected = reference(state(), torch.tensor([[1, 4, 5, 6, 2]]), torch.tensor([5]))
    torch.testing.assert_close(weights, torch.cat(expected), atol=1e-5, rtol=0)
    assert not weights.requires_grad


def test_an_empty_text_is_refused(model):
    with pytest.raises(ValueError, match="text is empty: give a sentence"):
        PretrainedEncoder(model, Words()).heads_of("  ")


def test_a_folder_in_hugging_face_s_form_is_read(tmp_path, model):
    """As it is stored, the tokenizer fills every sentence up to 128 tokens, or cuts it there."""
    safetensors, tokenizers = (pytest.importorskip(name) for name in ("safetensors.torch", "tokenizers"))
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "un", "##seen"]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.enable_padding(length=4)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    safetensors.save_file(state(), tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match="lacks config.json: give one with"):
        PretrainedEncoder.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    encoder = PretrainedEncoder.load(tmp_path)
    assert encoder.heads_of("a").tokens == ["[CLS]", "a", "[SEP]"]
    tokens, weights = encoder.heads_of("a unseen zebra")
    assert tokens == ["[CLS]", "a", "un", "##seen", "[UNK]", "[SEP]"]
    _, expected = model(torch.tensor([[1, 4, 5, 6, 3, 2]]), torch.tensor([6]), need_weights=True)
    assert torch.equal(weights, torch.cat(expected))
    (tmp_path / "model.safetensors").unlink()
    torch.save(from_tensorflow(), tmp_path / "pytorch_model.bin")
    assert torch.equal(PretrainedEncoder.load(tmp_path).heads_of("a unseen zebra").weights, weights)
    for name, content, cause in (
        ("pytorch_model.bin", "version https://git-lfs.github.com/spec/v1", "pytorch_model.bin .*Git LFS"),
        ("config.json", "{", "config.json cannot be read"),
        ("tokenizer.json", "[]", "tokenizer.json cannot be read"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=cause):
            PretrainedEncoder.load(tmp_path)


@pytest.mark.parametrize("absent", [WEIGHTS, "safetensors", "tokenizers"])
def test_without_the_extra_the_error_says_what_to_type(monkeypatch, absent):
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ImportError, match=absent.replace("_", "-")) as caught:
        PretrainedEncoder.load()
    assert INSTALL in str(caught.value)


def test_importing_the_encoder_imports_nothing_of_the_extra():
    extra = {"safetensors", "tokenizers", WEIGHTS}
    program = f"import sys, attncourse.models; sys.exit(bool({extra} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0


TEXT = "The animal didn't cross the street because it was too tired."
# From transformers 5.24, which this encoder met to 7e-6 in every layer. The keys: layer, head, the token that
# reads, the first of those that are read; and the token whose last state begins so.
REAL_WEIGHTS = {
    (0, 2, 5, 3): [0.0000003, 0.9999981, 0.0000015],
    (1, 8, 5, 5): [0.0208081, 0.9335104, 0.0131790],
    (3, 1, 10, 0): [0.1016097, 0.0442730, 0.6768481, 0.0036909],
    (5, 11, 10, 0): [0.1289793, 0.0185237, 0.6733293, 0.0039219],
}
REAL_STATES = {
    0: [0.0999583, 0.2067166, 0.2959366, 0.6611150],
    10: [0.5695968, 0.6067206, 0.3474907, 0.7461751],
}


def test_the_real_weights_give_the_numbers_of_the_reference_implementation():
    if not all(map(find_spec, (WEIGHTS, "safetensors", "tokenizers"))):
        pytest.skip(f"the pretrained encoder is not installed: {INSTALL}")
    encoder = PretrainedEncoder.load()
    assert sum(parameter.numel() for parameter in encoder.model.parameters()) == 22_565_376
    tokens, weights = encoder.heads_of(TEXT)
    words = "the animal didn ' t cross the street because it was too tired ."
    assert " ".join(tokens) == f"[CLS] {words} [SEP]"
    assert weights.shape == (6, 12, 16, 16)
    for (layer, head, query, first), numbers in REAL_WEIGHTS.items():
        found = weights[layer, head, query, first : first + len(numbers)]
        torch.testing.assert_close(found, torch.tensor(numbers), atol=1e-4, rtol=0)
    with torch.no_grad():
        states, _ = encoder.model(torch.tensor([encoder.tokenizer.encode(TEXT).ids]), torch.tensor([16]))
    for place, numbers in REAL_STATES.items():
        torch.testing.assert_close(states[0, place, :4], torch.tensor(numbers), atol=1e-4, rtol=0)
