"""What a cell shows, in several forms at once; each reader of the notebook takes the richest it knows."""

from IPython.display import display


class Bundle:
    """Content by MIME type, of which text/plain is what a plain Python prints."""

    def __init__(self, content: dict):
        self.content = content

    def __repr__(self) -> str:
        return self.content["text/plain"]

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return self.content


def publish(content: dict) -> None:
    """Show content, given by MIME type, as the output of the running cell."""
    display(Bundle(content))
