"""What the Vision Transformer costs beside the public one, and what a strided convolution saves it."""

import pytest
import torch
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification

from attncourse.models import VisionTransformer


@pytest.fixture(scope="module")
def pair():
    """ViT-Ti/16 of Hugging Face with weights drawn at random, and ours with the same."""
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768, num_labels=1_000)
    theirs = ViTForImageClassification(config).eval()
    return VisionTransformer.from_hugging_face(config.to_dict(), theirs.state_dict()), theirs


@torch.inference_mode()
def test_logits_against_the_public_model(pair, ratio):
    """Both read with the framework's fused kernel."""
    ours, theirs = pair
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=0, atol=1e-4)
    found = ratio(lambda: ours(images), lambda: theirs(images).logits)
    assert found >= 0.75, f"the public model takes {found:.2f} times as long as ours, not 0.75"


@torch.inference_mode()
def test_a_strided_convolution_against_cutting_the_patches_out(pair, ratio):
    """The same numbers from a copy of every patch and one matrix."""
    patches = pair[0].patches
    images = torch.randn(8, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    matrix = patches.weight.flatten(1)

    def cut():
        return F.linear(F.unfold(images, 16, stride=16).mT, matrix, patches.bias)

    torch.testing.assert_close(patches(images).flatten(2).mT, cut(), rtol=0, atol=1e-4)
    found = ratio(lambda: patches(images), cut)
    assert found >= 1.5, f"cutting the patches out takes {found:.2f} times as long, not 1.5"
