"""Mathematics that needs no network.

MathJax comes from the PyPI package `sphinx-mathjax-offline` when the book is built; nothing of it is in the
repository. Its scripts weigh 760 kB, half of what a page may weigh. They are packed into one file of 220 kB
that the page unpacks itself, which works from a folder on disk as well as from a server.
"""

import base64
import gzip
import json
import shutil
from importlib.resources import files
from pathlib import Path

# What TeX input and HTML output load, and MathML beside every formula for screen readers.
SCRIPTS = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "a11y/assistive-mml.js",
)
# MathJax fetches these by itself when a formula uses them, so they lie beside the page as plain files.
EXTENSIONS = (
    "bbox", "boldsymbol", "braket", "cancel", "color", "colorv2", "enclose", "html", "unicode", "verb",
)
FONTS = "output/chtml/fonts/woff-v2"


def mathjax_folder() -> Path:
    """The folder of MathJax files in the installed package (its name has hyphens: no import statement)."""
    return Path(str(files("sphinx-mathjax-offline"))) / "static" / "mathjax"


def pack(scripts: dict[str, str]) -> str:
    """Scripts by name, as one base64 string of compressed JSON; the same bytes for the same input."""
    return base64.b64encode(gzip.compress(json.dumps(scripts).encode(), mtime=0)).decode()


def write_mathjax(target: Path) -> list[Path]:
    """Write the packed scripts, the fonts and the extensions under `target`; the files written."""
    source = mathjax_folder()
    packed = pack({name: (source / name).read_text(encoding="utf8") for name in SCRIPTS})
    loader = (Path(__file__).parent / "mathjax.js").read_text(encoding="utf8")
    target.mkdir(parents=True, exist_ok=True)
    written = [target / "mathjax.js"]
    written[0].write_text(loader.replace("@PACKED@", packed), encoding="utf8")
    copied = [f"input/tex/extensions/{name}.js" for name in EXTENSIONS]
    copied += [f"{FONTS}/{font.name}" for font in sorted((source / FONTS).glob("*.woff"))]
    for name in copied:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
        written.append(target / name)
    return written


def _write_static(app):
    if app.builder.format == "html":
        write_mathjax(Path(app.outdir) / "_static" / "mathjax")


def setup(app):
    app.config.mathjax_path = "mathjax/mathjax.js"
    app.config.mathjax_options = {"defer": "defer"}
    app.connect("builder-inited", _write_static)
