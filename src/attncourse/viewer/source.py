"""The source in the page is the source that is tested: read from the package when the cell runs."""

import inspect
import re
import textwrap

from attncourse.viewer.publish import publish


def show_source(thing) -> None:
    """Show the source of a function, class or module of Python, with a caption that names where it lives.

    Raises:
        TypeError: `thing` has no Python source (an instance, a built-in, a value).
    """
    try:
        source = textwrap.dedent(inspect.getsource(thing)).strip()
    except (TypeError, OSError) as error:
        raise TypeError(
            f"show_source was given {thing!r}, which has no Python source to show: "
            "give a function, a method, a class or a module that was written in a file"
        ) from error
    # A fence must be longer than any run of backticks inside it.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
    caption = f"*From the package:* `{_address(thing)}`"
    markdown = f"{caption}\n\n{fence}python\n{source}\n{fence}"
    publish({"text/markdown": markdown, "text/plain": source})


def _address(thing) -> str:
    if inspect.ismodule(thing):
        return thing.__name__
    thing = inspect.unwrap(thing)
    return f"{thing.__module__}.{thing.__qualname__}"
