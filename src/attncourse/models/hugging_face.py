"""Weights that Hugging Face stored under names of its own: each must be there, have a place, and fit."""

from collections.abc import Collection, Mapping

from torch import Tensor, nn


def load_renamed(
    model: nn.Module, state: Mapping[str, Tensor], names: Mapping[str, str], unused: Collection[str] = ()
) -> None:
    """Load weights that are called otherwise.

    Args:
        model: its weights are replaced.
        state: the stored weights by their names.
        names: {name in the model: name in `state`} of every weight.
        unused: names that `state` may hold besides; they are passed over.

    Raises:
        ValueError: a weight is missing, left over or of the wrong shape.
    """
    ours, theirs = model.state_dict(), set(names.values())
    if missing := theirs - state.keys():
        raise ValueError(f"state lacks {', '.join(sorted(missing))}")
    if left_over := state.keys() - theirs - set(unused):
        raise ValueError(f"state holds {', '.join(sorted(left_over))}: this model has no place for it")
    for here, there in names.items():
        if state[there].shape != ours[here].shape:
            raise ValueError(f"state[{there!r}] has shape {tuple(state[there].shape)}: config asks for "
                             f"{tuple(ours[here].shape)}")
    model.load_state_dict({here: state[there] for here, there in names.items()})
