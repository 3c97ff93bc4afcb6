"""Chapter 09: the Vision Transformer. An image is cut into patches, and the patches are read as words are.

Dosovitskiy et al. 2021, "An image is worth 16x16 words: Transformers for image recognition at scale". The
encoder is that of chapter 08, with the layer norm first and GELU; only what enters it is new.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.models.hugging_face import check_config, load_renamed
from attncourse.models.interface import check_choice, check_images
from attncourse.models.transformer import Encoder

# VisionTransformer(1000, image=224, patch=16, **VIT_BASE) is ViT-B/16. Base and Large are the paper's (table
# 1); Tiny and Small came soon after (Touvron et al. 2021, table 1).
VIT_TINY = {"width": 192, "heads": 3, "layers": 12}
VIT_SMALL = {"width": 384, "heads": 6, "layers": 12}
VIT_BASE = {"width": 768, "heads": 12, "layers": 12}
VIT_LARGE = {"width": 1024, "heads": 16, "layers": 24}

POOLINGS = ("class", "mean")

# What a part is called here, and what Hugging Face calls it.
AROUND = {
    "class_token": "embeddings.cls_token",
    "positions": "embeddings.position_embeddings",
    "patches": "embeddings.patch_embeddings.projection",
    "encoder.norm": "layernorm",
}
LAYER = {
    "attention.query_projection": "attention.q_proj",
    "attention.key_projection": "attention.k_proj",
    "attention.value_projection": "attention.v_proj",
    "attention.output_projection": "attention.o_proj",
    "around_attention.norm": "layernorm_before",
    "feed_forward.0": "mlp.fc1",
    "feed_forward.3": "mlp.fc2",
    "around_feed_forward.norm": "layernorm_after",
}
# The same before version 5 of transformers: most weights on the hub are stored under these names.
LAYER_BEFORE = {
    **LAYER,
    "attention.query_projection": "attention.attention.query",
    "attention.key_projection": "attention.attention.key",
    "attention.value_projection": "attention.attention.value",
    "attention.output_projection": "attention.output.dense",
    "feed_forward.0": "intermediate.dense",
    "feed_forward.3": "output.dense",
}
# A layer behind the encoder that only other tasks use.
UNUSED = {"pooler.dense.weight", "pooler.dense.bias"}
# What a config must say, if it says anything of it.
ONLY = {"model_type": "vit", "hidden_act": "gelu", "qkv_bias": True}
NEEDED = ("image_size", "patch_size", "num_channels", "hidden_size", "num_attention_heads",
          "num_hidden_layers", "intermediate_size", "layer_norm_eps")


class VisionTransformer(nn.Module):
    """A Transformer encoder over the patches of an image (Dosovitskiy et al. 2021, section 3.1, figure 1).

    z_0 = [x_class; x_1 E; ...; x_N E] + E_pos (eq. 1), then layers of attention and feed-forward, each behind
    its norm (eq. 2 and 3), and y = LN(z_L) at the class token (eq. 4). A linear layer says what y shows. As a
    convolution whose stride is its size, E maps every patch at once.

    Args:
        classes: number of logits; None leaves the last layer out, and the output is y.
        image: pixels of the image's side, or (height, width).
        patch: pixels of a patch's side, a divisor of both.
        channels: 3 for colour, 1 for grey.
        width: d.
        heads: of every layer.
        layers: L.
        inner: width of the feed-forward layers' middle; 4 d if not given.
        dropout: also on the sum of patch and position, and, unlike the paper's, on the weights.
        pooling: "class", y is what becomes of a learned vector that no patch belongs to; or "mean", that of
            the patches, and there is no such vector.
        epsilon: of the layer norms.

    Raises:
        ValueError: an unknown pooling, heads that do not divide the width, or patches that do not fill the
            image.
    """

    def __init__(
        self,
        classes: int | None,
        *,
        image: int | tuple[int, int],
        patch: int,
        channels: int = 3,
        width: int,
        heads: int,
        layers: int,
        inner: int | None = None,
        dropout: float = 0.0,
        pooling: str = "class",
        epsilon: float = 1e-6,
    ):
        super().__init__()
        check_choice("pooling", pooling, POOLINGS)
        self.image = (image, image) if isinstance(image, int) else tuple(image)
        self.patch = patch
        self.grid = self._grid("image is", *self.image)
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)                      # E
        self.class_token = nn.Parameter(torch.zeros(1, 1, width)) if pooling == "class" else None
        count = self.grid[0] * self.grid[1] + (pooling == "class")
        self.positions = nn.Parameter(torch.empty(1, count, width))                         # E_pos
        nn.init.normal_(self.positions, std=width**-0.5)  # as `LearnedPositions`; the paper's code has 0.02
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(
            layers, width, heads, inner or 4 * width,
            norm="pre", dropout=dropout, activation=nn.GELU, epsilon=epsilon,
        )
        self.head = nn.Identity() if classes is None else nn.Linear(width, classes)

    def forward(
        self, images: Float[Tensor, "batch channels image_height image_width"], *, interpolate: bool = False
    ) -> Float[Tensor, "batch classes"]:
        """Score every class.

        Args:
            images: all of one size.
            interpolate: allow another size than the positions were learned for, and stretch them to it.

        Raises:
            TypeError: images that are not floating-point numbers.
            ValueError: another shape, other channels, or a size that the patches or the positions do not fit.
        """
        vectors, _ = self.encoder(self.embed(images, interpolate=interpolate))
        return self.head(vectors.mean(1) if self.class_token is None else vectors[:, 0])

    def attention_maps(
        self, images: Float[Tensor, "batch channels image_height image_width"], *, interpolate: bool = False
    ) -> Float[Tensor, "batch layers heads tokens tokens"]:
        """The weights of every head and layer: a row for the token that reads, a column for the one read.

        With a class token it is token 0. The patches follow row by row from the top left.
        """
        _, weights = self.encoder(self.embed(images, interpolate=interpolate), need_weights=True)
        return torch.stack(weights, dim=1)

    def embed(
        self, images: Float[Tensor, "batch channels image_height image_width"], *, interpolate: bool = False
    ) -> Float[Tensor, "batch tokens width"]:
        """What enters the encoder: the class token and the mapped patches, each with its position (eq. 1)."""
        rows, columns = self._checked_grid(images, interpolate)
        x = self.patches(images).flatten(2).transpose(1, 2)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.dropout(x + self.positions_on(rows, columns))

    def positions_on(self, rows: int, columns: int) -> Float[Tensor, "1 tokens width"]:
        """The learned positions, stretched to another grid of patches where that is asked for (section 3.2).

        The patches' vectors are interpolated by their place in the image. The class token has no place there:
        its position stays as it is.
        """
        if (rows, columns) == self.grid:
            return self.positions
        apart = int(self.class_token is not None)
        learned = self.positions[:, apart:].unflatten(1, self.grid).permute(0, 3, 1, 2)
        # The size is given, not the factor: 14 * (61 / 14) is a little less than 61, and a row would be lost.
        stretched = F.interpolate(learned, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([self.positions[:, :apart], stretched.flatten(2).transpose(1, 2)], dim=1)

    def _checked_grid(self, images: Tensor, interpolate: bool) -> tuple[int, int]:
        """Rows and columns of the images' patches, if this model can read them."""
        height, width = check_images(images, self.patches.in_channels, least=self.patch)
        grid = self._grid("images are", height, width)
        if (height, width) != self.image and not interpolate:
            raise ValueError(f"images are {height} x {width} pixels, and the positions were learned for "
                             f"{self.image[0]} x {self.image[1]}: resize the images, or let "
                             "interpolate=True stretch the positions")
        return grid

    def _grid(self, what: str, height: int, width: int) -> tuple[int, int]:
        if self.patch < 1 or height < 1 or width < 1 or height % self.patch or width % self.patch:
            raise ValueError(f"{what} {height} x {width} pixels, and patch is {self.patch}: height and width "
                             "must be multiples of the patch")
        return height // self.patch, width // self.patch

    @classmethod
    def from_hugging_face(cls, config: Mapping, state: Mapping[str, Tensor]) -> "VisionTransformer":
        """The model of a stored `ViTForImageClassification`, from its config.json and its named weights.

        A stored `ViTModel` will do, too; without the layer that classifies, this model has none either. Both
        the names of transformers 5 and those before it are understood.

        Raises:
            ValueError: another architecture, or weights that are missing, left over or of the wrong shape.
        """
        check_config(config, ONLY, NEEDED)
        classifier = state.get("classifier.weight")
        model = cls(
            None if classifier is None else len(classifier),
            image=config["image_size"],
            patch=config["patch_size"],
            channels=config["num_channels"],
            width=config["hidden_size"],
            heads=config["num_attention_heads"],
            layers=config["num_hidden_layers"],
            inner=config["intermediate_size"],
            epsilon=config["layer_norm_eps"],
        )
        prefix = "vit." if any(name.startswith("vit.") for name in state) else ""
        before = any(name.startswith(f"{prefix}encoder.layer.") for name in state)
        names = _hugging_face_names(model, prefix, before)
        load_renamed(model, state, names, unused={prefix + name for name in UNUSED})
        return model.eval()


def _hugging_face_names(model: VisionTransformer, prefix: str, before: bool) -> dict[str, str]:
    """{name here: name there} of every weight, in today's names or in those before them."""
    there = {here: prefix + theirs for here, theirs in AROUND.items()} | {"head": "classifier"}
    for i in range(len(model.encoder.layers)):
        layer = f"{prefix}encoder.layer.{i}." if before else f"{prefix}layers.{i}."
        parts = LAYER_BEFORE if before else LAYER
        there |= {f"encoder.layers.{i}.{here}": layer + theirs for here, theirs in parts.items()}
    names = {}
    for name in model.state_dict():
        part, _, kind = name.rpartition(".")  # kind: weight or bias
        names[name] = there[name] if name in there else f"{there[part]}.{kind}"
    return names
