"""The API reference, from docstrings that are plain prose and signatures that carry shapes.

Docstrings are written for a reader of the source: formulas such as sum_j alpha_ij h_j and shapes such as
(*batch, keys) stand in them as they are. Only `code`, lists, examples and Google-style sections mean
anything: what reStructuredText would take for markup is escaped, and an indented formula keeps its lines.
"""

import re

SPAN = re.compile(r"(``.+?``|`.+?`)")
MARKUP = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")
SECTION = re.compile(r"(Args|Returns|Raises|Yields|Examples?|Attributes|Notes?|References):$")
LONG_NAMES = re.compile(r"\b(?:jaxtyping|torch(?:\.nn(?:\.modules(?:\.\w+)*)?)?|collections\.abc|typing)\."
                        r"(?=[A-Z])")


def escape_prose(line: str) -> str:
    """Escape markup outside `code`."""
    return "".join(part if part.startswith("`") else MARKUP.sub(r"\\\1", part) for part in SPAN.split(line))


def as_markup(lines: list[str]) -> list[str]:
    """A docstring's lines as reStructuredText that shows what the docstring shows."""
    result, block = [], ""  # block: "section", "formula", "example" or "" for prose
    before = ""
    for line in lines:
        if line.lstrip().startswith(">>>") and block != "formula":
            block = "example"
        elif block == "example" and not line.strip():
            block = ""
        elif line.strip() and not line.startswith("  ") and block != "example":
            block = "section" if SECTION.match(line) else ""
        elif line.startswith("  ") and not block and not before.strip():
            block = "formula"
            result += ["::", ""]
        as_it_is = block in ("formula", "example") or line.lstrip().startswith((":", ".."))
        result.append(line if as_it_is else escape_prose(line))
        before = line
    return result


def _rewrite(app, what, name, obj, options, lines):
    if lines and lines[0].startswith("Alias for field number"):  # Python's own words, of a named tuple
        lines.clear()
    lines[:] = as_markup(lines)


def _shorten(app, what, name, obj, options, signature, returned):
    def short(text):
        return text and LONG_NAMES.sub("", text)

    return short(signature), short(returned)


def setup(app):
    app.connect("autodoc-process-docstring", _rewrite, priority=400)  # before Google sections become fields
    app.connect("autodoc-process-signature", _shorten)
