"""What this book needs beyond Jupyter Book: no request leaves the site, and every link is true.

`mathematics` brings MathJax from a package on disk, `icons` keeps the few icons that pages show, `figures`
makes stored figures light and `view_scripts` pages with several views, `address` turns the repository's
address into buttons and links, `chapter_map` draws the picture on the cover, `stored_view` puts a view of a
chapter there, `timetable` adds up what the chapters say of their length, `problem_pages` makes the pages of
the problem sets, `glossary_links` leads from a word to its entry, `docstrings` makes the API reference
readable, `accessible` mends the theme for screen readers, `metadata` describes each page to search engines.
`printed` is no part of the build: it prints the built book as one PDF.
"""

from attncourse_book import (
    accessible,
    address,
    chapter_map,
    docstrings,
    figures,
    glossary_links,
    icons,
    mathematics,
    metadata,
    problem_pages,
    stored_view,
    timetable,
    view_scripts,
)

PARTS = (mathematics, icons, figures, address, chapter_map, stored_view, timetable, problem_pages,
         glossary_links, docstrings, accessible, metadata, view_scripts)


def setup(app):
    for part in PARTS:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
