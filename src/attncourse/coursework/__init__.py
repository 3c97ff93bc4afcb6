"""Problem sets: one source, the versions made from it, and the grading of what students hand in.

A problem set's own notebook needs `rehearse` alone; everything else is behind `attncourse coursework`.
"""

__all__ = ["rehearse"]


def __getattr__(name: str):
    # Not imported before it is asked for: the sandbox starts a process for each submission.
    if name == "rehearse":
        from attncourse.coursework.asking import rehearse

        return rehearse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
