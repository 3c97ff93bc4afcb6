"""What this book needs beyond Jupyter Book: no request leaves the site, and every link is true.

`mathematics` brings MathJax from a package on disk, `icons` keeps the few icons that pages show, `figures`
makes stored figures light, `address` turns the repository's address into buttons and links, `chapter_map`
draws the picture on the cover, `docstrings` makes the API reference readable, `metadata` describes each page
to search engines.
"""

from attncourse_book import address, chapter_map, docstrings, figures, icons, mathematics, metadata


def setup(app):
    for part in (mathematics, icons, figures, address, chapter_map, docstrings, metadata):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
