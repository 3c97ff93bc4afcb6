"""Points given by hand: whatever a spreadsheet does to the table, they count, or the line is named."""

import csv
import io

import pytest
from handed_in import NAME, PROBLEMS, SETS

from attncourse.coursework.by_hand import COLUMNS, add_given, no_formula, read_given, row_as_given, row_for
from attncourse.coursework.judge import Report, Verdict

WORDS = "I would lower one of the two."


def reports(*students: str, words: str = WORDS) -> dict[str, list[Report]]:
    def one(student):
        verdicts = [
            Verdict(question.number, question.title, question.points, 0) for question in PROBLEMS.questions
        ]
        verdicts[3].earned, verdicts[3].answer = None, words
        return Report(student, NAME, PROBLEMS.points, verdicts, [])

    return {student: [one(student)] for student in students}


def table(of: dict[str, list[Report]], points="2.5", remark="") -> list[list[str]]:
    rows = [row_for(student, NAME, report.verdicts[3]) for student, [report] in of.items()]
    return [list(COLUMNS), *([*row[:4], points, remark, row[6]] for row in rows)]


def saved(path, rows, *, separator=",", encoding="utf-8-sig", before="", quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, quoting=quoting).writerows(rows)
    path.write_bytes((before + text.getvalue()).encode(encoding))
    return path


WAYS = {
    "as it was written": {},
    "LibreOffice, English": {"encoding": "utf-8"},
    "LibreOffice, all text quoted": {"quoting": csv.QUOTE_ALL},
    "Excel, German": {"separator": ";"},
    "Excel, with its mark": {"separator": ";", "before": "sep=;\r\n"},
    "Excel, Unicode text": {"separator": "\t", "encoding": "utf-16"},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_points_count_however_the_table_was_saved(tmp_path, way):
    """A semicolon in place of a comma, and an evening's work was overwritten without a word."""
    of = reports("ada", "Zoë; the second", "王小明")
    path = saved(tmp_path / "by_hand.csv", table(of, remark="good, but; short"), **way)
    assert add_given(of, read_given(path, SETS)) == []
    for [report] in of.values():
        assert (report.verdicts[3].earned, report.verdicts[3].remark) == (2.5, "good, but; short")


CHANGES = {
    "the decimal comma": lambda row: [*row[:4], "2,5", *row[5:]],
    "a question without its word": lambda row: [*row[:2], "02.4", *row[3:]],
    "a question as a number": lambda row: [*row[:2], "2.4", *row[3:]],
    "a question as a number elsewhere": lambda row: [*row[:2], "2,4", *row[3:]],
    "zeros lost from the front": lambda row: ["123", *row[1:]],
    "zeros lost, and no key": lambda row: ["123", *row[1:6], ""],
    "no key": lambda row: [*row[:6], ""],
    "another order of capitals": lambda row: [*row[:2], row[2].upper(), *row[3:]],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_points_count_whatever_the_spreadsheet_made_of_a_field(tmp_path, change):
    """02.4 becomes 2.4, and 00123 becomes 123: no point counts, and rows double."""
    of = reports("00123")
    heading, row = table(of)
    rest = add_given(of, read_given(saved(tmp_path / "t.csv", [heading, change(row)]), SETS))
    assert of["00123"][0].verdicts[3].earned == 2.5 and rest == []


REFUSED = {
    "another heading": ({(0, 0): "Name"}, "line 1: there is no column 'student'"),
    "a date": ({(1, 2): "2. Apr"}, "line 2: question is '2. Apr'"),
    "a question of no set": ({(1, 2): "99.1"}, "line 2: question is '99.1'"),
    "points as a date": ({(1, 4): "02.05.26"}, "line 2: points is '02.05.26'"),
    "too many points": ({(1, 4): "4"}, "not a number from 0 to 3"),
    "NaN": ({(1, 4): "nan"}, "not a number from 0 to 3"),
    "two opinions": ({(2, 0): "ada"}, "lines 2 and 3: two rows"),
}


@pytest.mark.parametrize(("fields", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_understood_is_refused_by_its_line(tmp_path, fields, said):
    rows = table(reports("ada", "bob"))
    rows[2][4] = "1"
    for (line, column), text in fields.items():
        rows[line][column] = text
    with pytest.raises(ValueError, match=said) as refused:
        read_given(saved(tmp_path / "t.csv", rows), SETS)
    assert "Nothing was overwritten" in str(refused.value)


def test_a_table_without_its_heading_is_refused(tmp_path):
    with pytest.raises(ValueError, match="line 1: there is no column"):
        read_given(saved(tmp_path / "t.csv", table(reports("ada"))[1:]), SETS)


def test_letters_of_another_alphabet_s_table_are_refused(tmp_path):
    path = saved(tmp_path / "t.csv", table(reports("Zoë")), encoding="cp1252")
    with pytest.raises(ValueError, match="line 2: these letters are not UTF-8"):
        read_given(path, SETS)


def test_a_remark_without_points_stays(tmp_path):
    of = reports("ada")
    path = saved(tmp_path / "t.csv", table(of, points="", remark="ask him\nwhat he means"))
    add_given(of, read_given(path, SETS))
    verdict = of["ada"][0].verdicts[3]
    assert (verdict.earned, verdict.remark) == (None, "ask him\nwhat he means")
    assert row_for("ada", NAME, verdict)[5] == "ask him\nwhat he means"


def test_points_for_another_answer_are_asked_for_again(tmp_path):
    """Handed in anew, the answer is not the one that was read."""
    path = saved(tmp_path / "t.csv", table(reports("ada"), remark="brief"))
    of = reports("ada", words="Something else.")
    add_given(of, read_given(path, SETS))
    verdict = of["ada"][0].verdicts[3]
    assert verdict.earned is None
    assert verdict.remark == "the answer has changed since 2.5 points were given: to be graded again. brief"


def test_a_row_for_what_the_machine_graded_overrules_it_visibly(tmp_path):
    """A lecturer who accepts a slip writes a row; ignored in silence, the student complains again."""
    of = reports("ada")
    rows = [list(COLUMNS), ["ada", NAME, "02.1", "", "1.5", "a slip of the pen", ""]]
    rest = add_given(of, read_given(saved(tmp_path / "t.csv", rows), SETS))
    verdict = of["ada"][0].verdicts[0]
    assert verdict.earned == 1.5
    assert verdict.remark == "1.5 points were given by a person, 0 by the machine. a slip of the pen"
    assert [row_as_given(one)[:6] for one in rest] == [
        ["ada", NAME, "question 02.1", "", "1.5", "a slip of the pen"]
    ]


@pytest.mark.parametrize("student", ["=1+1", "@x", "-5", "+49", "'quoted"])
def test_a_name_that_is_a_formula_is_found_again(tmp_path, student):
    of = reports(student)
    heading, row = table(of, remark="-1 for the sign")
    path = saved(tmp_path / "t.csv", [heading, [no_formula(field) for field in [*row[:6], ""]]])
    assert path.read_text().count("\n=") == 0
    add_given(of, read_given(path, SETS))
    verdict = of[student][0].verdicts[3]
    assert (verdict.earned, verdict.remark) == (2.5, "-1 for the sign")
