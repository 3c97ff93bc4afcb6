"""CIFAR-10: 60,000 colour photographs of 32 x 32 pixels in ten classes.

Please cite: Krizhevsky (2009), Learning multiple layers of features from tiny images. One archive of 170 MB
is fetched once. It is the binary version, plain bytes: the Python version is made of pickles, and to read a
pickle is to run what it says.
"""

import tarfile
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from attncourse.data.download import fetch
from attncourse.data.images import ImageCorpus, LabelledImages

ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CHECKSUM = "md5:c32a1d4ab5d03f1284b67883e8d87530"  # as the site has it
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # the label, then the red, the green and the blue plane, row by row


def cifar10_corpus(*, dev: int = 5_000, seed: int = 0) -> ImageCorpus:
    """CIFAR-10 as bytes: 45,000 images to train on, 5,000 dev, 10,000 test.

    The dev images are drawn from the published training set.

    Args:
        dev: number of dev images.
        seed: of the choice of the dev images.

    Raises:
        DownloadError: the archive is missing and cannot be fetched; the message says where to copy it.
        ValueError: a dev set that leaves nothing to train on.
    """
    records = _records(fetch("cifar10/cifar-10-binary.tar.gz", ADDRESS, CHECKSUM))
    known, test = (_labelled(records[part]) for part in ("data", "test"))
    count = len(known.labels)
    if not 0 <= dev < count:
        raise ValueError(f"dev is {dev}: the training set, which it is taken from, has {count} images, and "
                         "one at least must remain")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    parts = {"dev": order[:dev], "train": order[dev:].sort().values}
    parts = {part: LabelledImages(known.images[rows], known.labels[rows]) for part, rows in parts.items()}
    return ImageCorpus("CIFAR-10", **parts, test=test, classes=CLASSES)


def _records(archive: Path) -> dict[str, UInt8[Tensor, "count record"]]:
    """The records of data_batch_1.bin to data_batch_5.bin, and those of test_batch.bin."""
    found = {"data": {}, "test": {}}
    with tarfile.open(archive, "r:gz") as files:
        for file in files:
            name = file.name.split("/")[-1]
            if file.isfile() and name.endswith(".bin"):
                found[name.split("_")[0]][name] = files.extractfile(file).read()
    return {
        part: torch.frombuffer(bytearray().join(batches[name] for name in sorted(batches)), dtype=torch.uint8)
        .view(-1, RECORD)
        for part, batches in found.items()
    }


def _labelled(records: UInt8[Tensor, "count record"]) -> LabelledImages:
    return LabelledImages(records[:, 1:].unflatten(1, SHAPE), records[:, 0].long())
