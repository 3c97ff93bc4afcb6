"""Problem sets: one source, the versions made from it, and the grading of what students hand in.

The cells of a problem set call `rehearse` or `compare_here`; all else is behind `attncourse coursework`.
"""

__all__ = ["compare_here", "rehearse"]


def __getattr__(name: str):
    # Not imported before it is asked for: grading starts a process for each submission.
    if name in __all__:
        from attncourse.coursework import in_notebook

        return getattr(in_notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
