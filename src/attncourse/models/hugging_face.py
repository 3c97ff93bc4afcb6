"""Weights that Hugging Face stored under names of its own: each must be there, have a place, and fit."""

from collections.abc import Collection, Mapping

from torch import Tensor, nn

NAMED = 3  # of many names, so many show what is the matter


def check_config(config: Mapping, only: Mapping[str, object], needed: Collection[str]) -> None:
    """Refuse the config.json of another architecture.

    Args:
        config: what was stored.
        only: {name: the one value that the model can have}; a config need not mention it.
        needed: names that a config must have.

    Raises:
        ValueError: another value, or a name that is missing.
    """
    for name, value in only.items():
        if config.get(name, value) != value:
            raise ValueError(f"config[{name!r}] is {config[name]!r}: this model can only be {value!r}")
    if missing := [name for name in needed if name not in config]:
        raise ValueError(f"config lacks {', '.join(missing)}: is it the config.json of this architecture?")


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
    left_over = state.keys() - theirs - set(unused)
    if missing := theirs - state.keys():
        instead = f"; it holds {_some(left_over)} instead" if left_over else ""
        raise ValueError(f"state lacks {_some(missing)}, of {len(theirs)} weights{instead}: are these the "
                         "weights of this architecture, and of this config?")
    if left_over:
        raise ValueError(f"state holds {_some(left_over)}: this model has no place for it")
    for here, there in names.items():
        if state[there].shape != ours[here].shape:
            raise ValueError(f"state[{there!r}] has shape {tuple(state[there].shape)}: config asks for "
                             f"{tuple(ours[here].shape)}")
    model.load_state_dict({here: state[there] for here, there in names.items()})


def _some(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    first, more = sorted(names)[:NAMED], len(names) - NAMED
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
