"""The theme brings 2,000 icons and pages show some thirty of them: only those stay in the built book.

The theme's style sheet has a rule for every icon (92 kB), its font every drawing (156 kB), and a script of
1.5 MB draws the same icons once more. The script is left out by the layout template; here the rules and the
font are cut down to the icons that stand in the built pages.
"""

import re
from importlib.resources import files
from pathlib import Path

from fontTools import subset

STYLE = "styles/pydata-sphinx-theme.css"
FONTS = "vendor/fontawesome/webfonts"
RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"([^"]+)"\}')
VARIABLE = re.compile(r'--pst-icon-[\w-]+:"([^"]+)"')
COMPRESSED = re.compile(r'url\([^)]*\.woff2\) format\("woff2"\),')


def icons_in(pages: list[Path]) -> set[str]:
    """The names of all icons that the pages show, such as `fa-bars`."""
    return {name for page in pages for name in re.findall(r"fa-[\w-]+", page.read_text(encoding="utf8"))}


def code_point(text: str) -> int:
    """The character that a CSS string holds, which may be written as an escape."""
    return int(text[1:], 16) if text.startswith("\\") else ord(text)


def cut_style(style: str, icons: set[str]) -> tuple[str, set[int]]:
    """The style sheet without the rules of other icons, and the code points that it still shows."""
    points = {code_point(text) for text in VARIABLE.findall(style)}

    def keep(rule):
        if not icons & set(re.findall(r"fa-[\w-]+", rule[1])):
            return ""
        points.add(code_point(rule[2]))
        return rule[0]

    return COMPRESSED.sub("", RULE.sub(keep, style)), points


def cut_font(source: Path, target: Path, points: set[int]):
    """Write the font with these characters only."""
    options = subset.Options()
    options.layout_features, options.notdef_outline = [], True
    font = subset.load_font(source, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=points)
    subsetter.subset(font)
    subset.save_font(font, target, options)


def _cut(app, exception):
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    theme = Path(str(files("pydata_sphinx_theme"))) / "theme" / "pydata_sphinx_theme" / "static"
    pages = [page for page in Path(app.outdir).rglob("*.html") if static not in page.parents]
    style, points = cut_style((theme / STYLE).read_text(encoding="utf8"), icons_in(pages))
    (static / STYLE).write_text(style, encoding="utf8")
    for font in (theme / FONTS).glob("*.ttf"):
        cut_font(font, static / FONTS / font.name, points)
    for unused in ("**/*.map", "scripts/fontawesome*", f"{FONTS}/*.woff2"):
        for file in list(static.glob(unused)):
            file.unlink()


def setup(app):
    app.connect("build-finished", _cut)
