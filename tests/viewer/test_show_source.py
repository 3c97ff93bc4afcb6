"""show_source: what the page shows is what the package runs."""

import inspect

import pytest

from attncourse.attention import DotScore, attend
from attncourse.viewer import show_source


@pytest.fixture
def shown(published):
    def shown(thing) -> dict:
        show_source(thing)
        return published[-1]

    return shown


def test_a_function_is_shown_whole_with_its_address(shown):
    data = shown(attend)
    assert data["text/plain"] == inspect.getsource(attend).strip()
    assert data["text/markdown"].startswith("*From the package:* `attncourse.attention.equation.attend`")
    assert "```python\ndef attend(" in data["text/markdown"]


def test_a_method_is_dedented(shown):
    assert shown(DotScore.forward)["text/plain"].startswith("def forward(")


def test_backticks_in_the_source_do_not_end_the_fence(shown, tmp_path, monkeypatch):
    (tmp_path / "ticks.py").write_text('def f():\n    """A fence: ```."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    import ticks

    markdown = shown(ticks.f)["text/markdown"]
    assert "````python" in markdown and markdown.endswith("````")


@pytest.mark.parametrize("thing", [len, 3, DotScore()])
def test_what_has_no_source_is_named(thing):
    with pytest.raises(TypeError, match="show_source was given"):
        show_source(thing)
