"""Figures as files of their own, in a third of the bytes.

A notebook holds its figures as PNG in base64, so that one file is enough anywhere. In the book each becomes a
lossless WebP beside the page: the same pixels, and a page that stays light however many figures it has.
"""

import base64
import hashlib
import io
import re
from pathlib import Path

from PIL import Image

STORED = re.compile(r'src="data:image/png;base64,([A-Za-z0-9+/=\s]+)"')


def to_webp(png: bytes) -> bytes:
    """The same picture, losslessly."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).save(buffer, "WEBP", lossless=True, method=4)
    return buffer.getvalue()


def store_figures(body: str, folder: Path, address: str) -> str:
    """Write the figures in a page's body to `folder`, and let the page load them from `address`."""

    def store(match):
        png = base64.b64decode(match[1])
        name = f"{hashlib.sha256(png).hexdigest()[:16]}.webp"
        if not (folder / name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(to_webp(png))
        return f'src="{address}/{name}"'

    return STORED.sub(store, body)


def _store(app, pagename, templatename, context, doctree):
    if "body" in context:
        folder = Path(app.outdir) / "_images" / "figures"
        context["body"] = store_figures(context["body"], folder, context["pathto"]("_images/figures", 1))


def setup(app):
    app.connect("html-page-context", _store)
