"""Results with columns, as a table of the page: it keeps its columns on a phone, and is read out as one."""

from collections.abc import Sequence
from html import escape

from attncourse.claims import written
from attncourse.viewer.publish import publish


def show_table(
    rows: Sequence[Sequence],
    *,
    columns: Sequence[str],
    caption: str = "",
    notes: str = "",
    places: int = 2,
) -> None:
    """Show a table; the first cell of each row is its heading.

    Args:
        rows: one sequence of cells a row. Numbers with a decimal point are written with `places` decimals,
            whole ones with their thousands apart; texts as they are.
        columns: a heading for each column, the first one too.
        caption: what the table shows, above it.
        notes: what a reader must know to compare the rows, below it.

    Raises:
        ValueError: no rows, or a row that has not one cell for each column.
    """
    if not rows:
        raise ValueError("rows is empty: a table without rows says nothing")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            raise ValueError(f"row {number} has {len(row)} cells, and there are {len(columns)} columns")
    cells = [[_written(cell, places) for cell in row] for row in rows]
    numeric = [all(_is_number(row[place]) for row in rows) for place in range(len(columns))]
    publish({
        "text/html": _html(cells, list(columns), numeric, caption, notes),
        "text/plain": _plain(cells, list(columns), numeric, caption, notes),
    })


def _is_number(cell) -> bool:
    return isinstance(cell, int | float) or hasattr(cell, "item")


def _written(cell, places: int) -> str:
    cell = cell.item() if hasattr(cell, "item") else cell
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    return written(cell, places)


def _html(cells, columns, numeric, caption, notes) -> str:
    kinds = [' class="number"' if number else "" for number in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{escape(column)}</th>' for column, kind in zip(columns, kinds, strict=True)
    )
    body = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds[1:], strict=True))
        + "</tr>"
        for name, *row in cells
    )
    above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    below = f'\n<p class="attn-notes">{escape(notes)}</p>' if notes else ""
    return (
        f'<div class="attn-table">\n<table>\n{above}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>{below}\n</div>"
    )


def _plain(cells, columns, numeric, caption, notes) -> str:
    wide = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, wide, numeric, strict=True)
        ).rstrip()
        for row in [columns, *cells]
    ]
    return "\n".join([*filter(None, [caption]), *lines, *filter(None, [notes])])
