"""What a cell would show, caught as content by MIME type."""

import pytest


@pytest.fixture
def published(monkeypatch) -> list[dict]:
    """The content of everything that is published during the test, in order."""
    contents = []
    monkeypatch.setattr(
        "attncourse.viewer.publish.display", lambda bundle: contents.append(bundle._repr_mimebundle_())
    )
    return contents
