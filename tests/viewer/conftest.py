"""What a cell would show, caught as content by MIME type; and node, which runs the scripts of the views."""

import json
import os
import re
import shutil
import subprocess

import pytest

from attncourse.viewer.views.component import asset


@pytest.fixture(scope="session")
def in_node():
    """The value of a JavaScript expression over the given scripts and values, computed by node."""
    node = shutil.which("node")
    if node is None:
        reason = "the tests of the views' scripts need node: install Node.js"
        # Where everything must run, a skipped test is a failed one.
        pytest.fail(reason, pytrace=False) if os.environ.get("CI") else pytest.skip(reason)

    def in_node(expression: str, *, scripts: tuple[str, ...] = ("attention_math.js",), **values):
        names = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        code = "\n".join(map(asset, scripts))
        program = f"{code}\n{names}console.log(JSON.stringify({expression}))"
        done = subprocess.run([node], input=program, capture_output=True, text=True, check=True, timeout=60)
        return json.loads(done.stdout)

    return in_node


@pytest.fixture
def published(monkeypatch) -> list[dict]:
    """The content of everything that is published during the test, in order."""
    contents = []
    monkeypatch.setattr(
        "attncourse.viewer.publish.display", lambda bundle: contents.append(bundle._repr_mimebundle_())
    )
    return contents


@pytest.fixture(scope="session")
def data_of():
    """The data that a view, or its HTML, hands to its script."""
    def data_of(view) -> dict:
        html = view if isinstance(view, str) else view._repr_html_()
        return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html, re.S)[1])

    return data_of
