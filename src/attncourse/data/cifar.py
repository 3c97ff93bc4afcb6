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

from attncourse.data.corpora import check_counts
from attncourse.data.download import fetch
from attncourse.data.images import ImageCorpus, LabelledImages

ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CHECKSUM = "md5:c32a1d4ab5d03f1284b67883e8d87530"  # as the site has it
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
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
        ValueError: a dev set that leaves nothing to train on, a batch that is not whole, or a label above 9.
    """
    check_counts(0, dev=dev, seed=seed)
    records = _records(fetch("cifar10/cifar-10-binary.tar.gz", ADDRESS, CHECKSUM))
    known, test = (_labelled(records[part]) for part in ("data", "test"))
    count = len(known.labels)
    if dev >= count:
        raise ValueError(f"dev is {dev}: the training set, which it is taken from, has {count} images, and "
                         "one at least must remain")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    parts = {"dev": order[:dev], "train": order[dev:].sort().values}
    parts = {part: LabelledImages(known.images[rows], known.labels[rows]) for part, rows in parts.items()}
    return ImageCorpus("CIFAR-10", **parts, test=test, classes=CLASSES)


def _records(archive: Path) -> dict[str, UInt8[Tensor, "count record"]]:
    """The records of data_batch_1.bin to data_batch_5.bin, and those of test_batch.bin."""
    batches = {}
    with tarfile.open(archive, "r:gz") as files:
        for file in files:
            name = file.name.split("/")[-1]
            if file.isfile() and name in BATCHES:
                batches[name] = files.extractfile(file).read()
    for name in BATCHES:
        if not batches.get(name) or len(batches[name]) % RECORD:
            given = f"{len(batches[name])} bytes" if name in batches else "not there"
            raise ValueError(f"{archive}: {name} is {given}; it must hold records of {RECORD} bytes each")
    parts = {"data": BATCHES[:-1], "test": BATCHES[-1:]}
    return {
        part: torch.frombuffer(bytearray().join(batches[name] for name in names), dtype=torch.uint8)
        .view(-1, RECORD)
        for part, names in parts.items()
    }


def _labelled(records: UInt8[Tensor, "count record"]) -> LabelledImages:
    labels = records[:, 0].long()
    if labels.max() >= len(CLASSES):
        row = int((labels >= len(CLASSES)).nonzero()[0])
        raise ValueError(f"record {row} has the label {labels[row]}: CIFAR-10's are 0 to {len(CLASSES) - 1}")
    return LabelledImages(records[:, 1:].unflatten(1, SHAPE), labels)
