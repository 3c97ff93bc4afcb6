"""Files too large to ship: fetched once, checked, and kept in one folder.

A file counts only if its checksum is the expected one. A damaged or half-finished file is fetched again,
and what arrives is moved into place only after it was checked, so a broken file is never read.
"""

import os
from pathlib import Path

import pooch
from tqdm.auto import tqdm


class DownloadError(OSError):
    """A file is not in the cache folder and could not be fetched. The message says what to do."""


def cache_folder() -> Path:
    """Where downloads are kept: `ATTNCOURSE_DATA` if that is set, else the platform's user cache."""
    return Path(os.environ.get("ATTNCOURSE_DATA") or pooch.os_cache("attncourse")).expanduser().absolute()


def fetch(name: str, address: str, checksum: str) -> Path:
    """The path of a downloaded file; fetches it first, with a progress bar, if it is not there and whole.

    Args:
        name: its place below the cache folder, such as `multi30k/train.de.gz`.
        address: where it is fetched from.
        checksum: its SHA-256, 64 hexadecimal digits; or "md5:" and 32, where the publisher gives no better.

    Raises:
        DownloadError: no network, no such address, a full disk, or a wrong checksum twice in a row.
    """
    path = cache_folder() / name
    kind, _, digits = checksum.rpartition(":")
    if path.is_file() and pooch.file_hash(str(path), kind or "sha256") == digits:
        return path
    try:
        _download(path, address, checksum)
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"{path.name} is needed and could not be fetched from {address} ({_reason(error)}). "
            f"Try again with a network, or copy the file by hand to {path} "
            f"({kind.upper() or 'SHA-256'} {digits}). "
            "The environment variable ATTNCOURSE_DATA names another folder to look in."
        ) from None  # the library's own trace is long and says less
    return path


def _download(path: Path, address: str, checksum: str, attempts: int = 2) -> None:
    pooch.get_logger().setLevel("WARNING")  # else two lines for each file, in the notebook
    # The total of 1 is a stand-in until the server tells the size: pooch cannot use a bar without one.
    with tqdm(desc=path.name, total=1, unit="B", unit_scale=True, leave=False) as bar:
        try:
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16)
            pooch.retrieve(address, checksum, path.name, path.parent, downloader=downloader)
            return
        except (OSError, ValueError) as error:
            # A connection cut on the way or a wrong checksum is worth a second try; silence is not.
            if attempts == 1 or not _arrived_broken(error):
                raise
    _download(path, address, checksum, attempts - 1)


def _arrived_broken(error: Exception) -> bool:
    from requests.exceptions import ChunkedEncodingError  # slow to import, and only a failure needs it

    return isinstance(error, ValueError | ChunkedEncodingError)


def _reason(error: Exception) -> str:
    from requests import exceptions

    match error:
        case exceptions.HTTPError():
            return f"the server answered {error.response.status_code}"
        case exceptions.Timeout():
            return "the server did not answer in time"
        case exceptions.ChunkedEncodingError():
            return "the connection broke off, twice"
        case exceptions.ConnectionError():
            return "no connection"
        case exceptions.RequestException():
            return f"{type(error).__name__}: {error}"
        case ValueError():
            return "what arrived had a wrong checksum, twice"
    return str(error)
