"""Downloads: a broken file is noticed and never used, and without a network the message says what to do."""

import gzip
import re
from hashlib import sha256
from pathlib import Path

import pooch
import pytest

from attncourse.data.download import DownloadError, cache_folder, fetch

GOOD = gzip.compress(b"eins\nzwei\n" * 5000, mtime=0) + bytes(range(256)) * 300
SHA256 = sha256(GOOD).hexdigest()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_folder_is_the_named_one_or_the_platforms_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("ATTNCOURSE_DATA", "~/courses")
    assert cache_folder() == Path.home() / "courses"
    monkeypatch.setenv("ATTNCOURSE_DATA", "")
    assert cache_folder() == Path(pooch.os_cache("attncourse"))
    monkeypatch.delenv("ATTNCOURSE_DATA")
    assert cache_folder() == Path(pooch.os_cache("attncourse"))


def test_a_file_is_fetched_once(server, folder):
    server.files["/a.gz"] = [GOOD]
    for _ in range(2):
        path = fetch("corpus/a.gz", f"{server.address}/a.gz", SHA256)
        assert path == folder / "corpus" / "a.gz" and path.read_bytes() == GOOD
    assert server.asked["/a.gz"] == 1
    assert contents(folder) == ["a.gz"]


@pytest.mark.parametrize("damaged", [GOOD[:-1], GOOD[: len(GOOD) // 2], b"", GOOD[:-1] + b"?"])
def test_a_damaged_copy_is_fetched_again(server, folder, damaged):
    """A download that was interrupted leaves half a file, which must not be read."""
    path = folder / "a.gz"
    folder.mkdir()
    path.write_bytes(damaged)
    server.files["/a.gz"] = [GOOD]
    assert fetch("a.gz", f"{server.address}/a.gz", SHA256).read_bytes() == GOOD


BROKEN = {
    "the connection broke off": (GOOD[:1000], len(GOOD)),
    "half the file": GOOD[:1000],
    "another file": b"<html>Please log in</html>",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_download_that_breaks_is_tried_again(server, folder, kind):
    server.files["/a.gz"] = [BROKEN[kind], GOOD]
    assert fetch("a.gz", f"{server.address}/a.gz", SHA256).read_bytes() == GOOD
    assert contents(folder) == ["a.gz"]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_download_that_stays_broken_leaves_nothing_behind(server, folder, kind):
    server.files["/a.gz"] = [BROKEN[kind]]
    with pytest.raises(DownloadError, match="twice"):
        fetch("a.gz", f"{server.address}/a.gz", SHA256)
    assert server.asked["/a.gz"] == 2
    assert contents(folder) == [], "a broken file was kept, and would be found at the next try"


def no_network(server) -> str:
    server.shutdown()
    server.server_close()
    return "no connection"


@pytest.mark.parametrize("trouble", [no_network, lambda server: "the server answered 404"])
def test_without_the_file_one_message_says_what_to_do(server, folder, trouble):
    reason = trouble(server)
    address = f"{server.address}/a.gz"
    with pytest.raises(DownloadError) as caught:
        fetch("corpus/a.gz", address, SHA256)
    message = str(caught.value)
    for needed in ("a.gz", address, reason, str(folder / "corpus" / "a.gz"), SHA256, "ATTNCOURSE_DATA"):
        assert needed in message
    assert caught.value.__suppress_context__, "the reader should see one error, not the library's own chain"


def test_a_damaged_copy_is_not_used_when_there_is_no_network(server, folder):
    folder.mkdir()
    (folder / "a.gz").write_bytes(GOOD[:-1])
    no_network(server)
    with pytest.raises(DownloadError):
        fetch("a.gz", f"{server.address}/a.gz", SHA256)


def test_following_the_message_works_without_a_network(server, folder):
    no_network(server)
    with pytest.raises(DownloadError) as caught:
        fetch("corpus/a.gz", f"{server.address}/a.gz", SHA256)
    path = Path(re.search(r"by hand to (\S+) \(", str(caught.value))[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(GOOD)
    assert fetch("corpus/a.gz", f"{server.address}/a.gz", SHA256) == path


def test_a_folder_that_cannot_be_written_is_the_same_kind_of_error(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path / "file"))
    server.files["/a.gz"] = [GOOD]
    with pytest.raises(DownloadError, match="ATTNCOURSE_DATA"):
        fetch("a.gz", f"{server.address}/a.gz", SHA256)


def test_a_fetch_says_nothing_on_standard_output(server, folder, capsys):
    """Stored notebook outputs must not depend on whether the file was already there."""
    server.files["/a.gz"] = [GOOD]
    fetch("a.gz", f"{server.address}/a.gz", SHA256)
    said = capsys.readouterr()
    assert said.out == "" and "SHA256" not in said.err and "Downloading" not in said.err
