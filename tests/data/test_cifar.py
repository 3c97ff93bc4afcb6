"""CIFAR-10: read from an archive of a few images served on this machine, laid out as the real one."""

import io
import tarfile
from hashlib import md5

import pytest
import torch

from attncourse.data import cifar, cifar10_corpus
from attncourse.data.download import DownloadError

NAMES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def record(label, value) -> bytes:
    """One image: red is `value` but for its second pixel, green `value` + 1, blue `value` + 2."""
    planes = [bytes([value + channel]) * 1024 for channel in range(3)]
    planes[0] = bytes([value, 255]) + planes[0][2:]
    return bytes([label]) + b"".join(planes)


def packed(names=NAMES, **changed) -> bytes:
    """A tar.gz with two images a file, the folder as an entry of its own, and the files without images."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        folder = tarfile.TarInfo("cifar-10-batches-bin")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        texts = {"readme.html": b"<html>", "batches.meta.txt": b"airplane\n"}
        texts |= {name: record(i, 10 * i) + record(9, 10 * i + 5) for i, name in enumerate(NAMES)}
        texts |= {f"{name}.bin": content for name, content in changed.items()}
        for name in ("readme.html", *names, "batches.meta.txt"):
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(texts[name])
            archive.addfile(entry, io.BytesIO(texts[name]))
    return buffer.getvalue()


@pytest.fixture
def small(server, tmp_path, monkeypatch):
    """The corpus with ten training images for 50,000."""
    serve(server, monkeypatch, packed())
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path))
    return server


def serve(server, monkeypatch, content):
    path = f"/{md5(content).hexdigest()}.tar.gz"
    server.files[path] = [content]
    monkeypatch.setattr(cifar, "ADDRESS", server.address + path)
    monkeypatch.setattr(cifar, "CHECKSUM", f"md5:{md5(content).hexdigest()}")


def test_labels_and_planes_are_read(small):
    """The label is the first byte of a record, not the last; the planes are channels, not rows."""
    corpus = cifar10_corpus(dev=0)
    images, labels = corpus.train
    assert images.dtype == torch.uint8 and images.shape == (10, 3, 32, 32)
    assert labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9], "the batches in the order of their numbers"
    assert images[2, :, 0, 0].tolist() == [10, 11, 12], "red, green, blue"
    assert images[2, 0, 0, 1] == 255 and images[2, 0, 1, 0] == 10, "row by row"
    assert (images[9, 1] == 46).all() and (images[9, 2] == 47).all()
    assert corpus.test.labels.tolist() == [5, 9] and (corpus.test.images[0, 1] == 51).all()
    assert len(corpus.classes) == 10 and corpus.classes[3] == "cat" and corpus.classes[9] == "truck"


def test_dev_comes_out_of_train_by_the_seed(small):
    first, again = (cifar10_corpus(dev=4) for _ in range(2))
    assert [len(part.labels) for part in (first.train, first.dev, first.test)] == [6, 4, 2]
    assert torch.equal(first.dev.images, again.dev.images)
    assert torch.equal(first.train.labels, again.train.labels)
    values = [set(part.images[:, 1, 0, 0].tolist()) for part in (first.train, first.dev)]
    assert not values[0] & values[1] and len(values[0] | values[1]) == 10
    chosen = {tuple(cifar10_corpus(dev=4, seed=seed).dev.images[:, 1, 0, 0].tolist()) for seed in range(6)}
    assert len(chosen) > 1, "every seed chose the same"


def test_the_order_does_not_hang_on_the_archive(small, monkeypatch):
    """Another tool packs the files in another order."""
    expected = cifar10_corpus(dev=0)
    serve(small, monkeypatch, packed(NAMES[::-1]))
    found = cifar10_corpus(dev=0)
    assert torch.equal(found.train.images, expected.train.images)
    assert torch.equal(found.test.labels, expected.test.labels)


def test_it_is_fetched_once_and_a_damaged_archive_again(small, tmp_path):
    before = cifar10_corpus(dev=0)
    cifar10_corpus(dev=0)
    assert sum(small.asked.values()) == 1, "a whole archive was fetched again"
    path = tmp_path / "cifar10" / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:-4])
    assert torch.equal(cifar10_corpus(dev=0).train.images, before.train.images)
    assert sum(small.asked.values()) == 2


def test_without_a_network_the_message_names_the_archive_its_place_and_its_md5(small, tmp_path):
    small.shutdown()
    small.server_close()
    with pytest.raises(DownloadError, match="cifar-10-binary.tar.gz") as caught:
        cifar10_corpus()
    digits = cifar.CHECKSUM.removeprefix("md5:")
    assert f"{tmp_path / 'cifar10' / 'cifar-10-binary.tar.gz'} (MD5 {digits})" in str(caught.value)


@pytest.mark.parametrize(("dev", "words"), [(-1, "at least 0"), (10, "10 images")])
def test_a_dev_set_that_leaves_nothing_is_named(small, dev, words):
    with pytest.raises(ValueError, match=f"dev is {dev}: .*{words}"):
        cifar10_corpus(dev=dev)


@pytest.mark.parametrize(("content", "words"), [
    (packed(NAMES[:2] + NAMES[3:]), "data_batch_3.bin is not there"),
    (packed(NAMES[:-1]), "test_batch.bin is not there"),
    (packed(data_batch_2=record(1, 10)[:-1]), "data_batch_2.bin is 3072 bytes; .*records of 3073"),
    (packed(data_batch_2=b""), "data_batch_2.bin is 0 bytes"),
    (packed(data_batch_1=record(1, 10), data_batch_2=record(10, 10)), "record 1 has the label 10: .*0 to 9"),
])
def test_an_archive_that_is_not_whole_is_named(small, monkeypatch, content, words):
    """A record too short shifts all that follow: labels become pixels."""
    serve(small, monkeypatch, content)
    with pytest.raises(ValueError, match=words):
        cifar10_corpus(dev=0)


def test_the_published_archive_is_the_one_that_is_checked():
    """The binary version: to read the Python version, a pickle, is to run what it says."""
    assert cifar.ADDRESS == "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert cifar.CHECKSUM == "md5:c32a1d4ab5d03f1284b67883e8d87530"
