"""The training loop of every chapter: seeded, counted in steps, resumable. Read `train` and `_Run` first."""

import hashlib
import math
import os
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from attncourse.data.vocabulary import PAD
from attncourse.devices import on_device


@dataclass
class History:
    """What a run recorded, as plain floats: loss and learning rate per step, dev score per evaluation.

    `dev` and `dev_steps` run in parallel; `best_step` is the step whose weights were kept.
    """

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    dev: list[float] = field(default_factory=list)
    dev_steps: list[int] = field(default_factory=list)
    best_step: int | None = None


def token_loss(model: nn.Module, batch: Any, *, smoothing: float = 0.0) -> Float[Tensor, ""]:
    """Mean negative log-probability of the target's real tokens, in nats; padding counts for nothing.

    Args:
        model: a sequence model.
        batch: a `Batch` on the model's device.
        smoothing: share of the probability that is taken from the right token and spread evenly over all
            others but padding, which is never right (Szegedy et al. 2016, section 7).

    A batch of padding only, which has nothing to average, costs 0 and moves nothing: to raise an error, its
    tokens would have to be counted, and read from the device, at every step.

    Raises:
        ValueError: a smoothing below 0, or of 1 and more.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing is {smoothing}: it must be at least 0 and below 1")
    logits = model(batch.source, batch.source_lengths, batch.target_in).logits.flatten(0, 1).float()
    target = batch.target_out.flatten()
    count = (target != PAD).sum().clamp(min=1)
    if not smoothing:
        return F.cross_entropy(logits, target, ignore_index=PAD, reduction="sum") / count
    log_probability = logits.log_softmax(-1)
    right = log_probability.gather(-1, target[:, None]).squeeze(-1)
    # Padding is left out and not subtracted: a model may say that it is impossible, and -inf - -inf is NaN.
    others = log_probability[:, :PAD].sum(-1) + log_probability[:, PAD + 1 :].sum(-1) - right
    share = smoothing / (logits.shape[-1] - 2)
    return -((1 - smoothing) * right + share * others)[target != PAD].sum() / count


def warm_up_rate(step: int, *, width: int, warm_up: int) -> float:
    """The Transformer's learning rate: it rises in proportion, then falls with the root of the step.

    d^(-1/2) * min(step^(-1/2), step * warm_up^(-3/2))  (Vaswani et al. 2017, eq. 3).

    Args:
        step: from 1.
        width: d of the model.
        warm_up: the step with the highest rate.

    Raises:
        ValueError: a number below 1.
    """
    for name, value in {"step": step, "width": width, "warm_up": warm_up}.items():
        if not value >= 1:
            raise ValueError(f"{name} is {value}: it must be at least 1")
    return width**-0.5 * min(step**-0.5, step * warm_up**-1.5)


def pick_device(name: str | torch.device | None = None) -> torch.device:
    """The best device there is: CUDA, then Apple's MPS, then the CPU; `ATTNCOURSE_DEVICE` overrides.

    Raises:
        ValueError: a device that this machine does not have.
    """
    wanted = str(name or os.environ.get("ATTNCOURSE_DEVICE") or "")
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if not wanted:
        return torch.device(next(kind for kind, present in there.items() if present))
    if not there.get(wanted.split(":")[0], False):
        present = ", ".join(kind for kind, yes in there.items() if yes)
        raise ValueError(f"device is {wanted!r}: this machine has {present}")
    return torch.device(wanted)


def train(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Tensor],
    batches: Sequence[Any] | Iterable[Any],
    *,
    steps: int,
    learning_rate: float | Callable[[int], float] = 3e-3,
    clip: float = 1.0,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    evaluate_every: int | None = None,
    checkpoint: str | Path | None = None,
    device: str | None = None,
    progress: bool = True,
) -> History:
    """Train `model` in place for a number of steps: Adam, a falling learning rate, clipped gradients.

    Args:
        model: any module.
        loss: (model, batch) -> a scalar tensor, such as `token_loss`.
        batches: `batches[step]` is the batch of that step: a tensor, a tuple, list or dictionary of tensors,
            or anything with a method `to(device)`. What has no index, such as a `DataLoader`, is read from
            its beginning again and again.
        steps: how many updates in all; a resumed run counts those already made.
        learning_rate: the first and highest one, from which a cosine leads to zero; or a function that gives
            the rate of each step, counted from 1, such as `warm_up_rate` with its width and warm-up.
        clip: largest norm of the gradient.
        seed: of dropout and everything else that is drawn during training.
        evaluate: model -> a score on the dev set, lower is better; the best weights are kept.
        evaluate_every: steps between two evaluations.
        checkpoint: file written at each evaluation; if it exists, the run goes on from it, with the result
            of a run that was never interrupted. It must be of the same run: compared are the seed, the steps,
            the learning rate of every step, the clip, evaluate_every, the shapes of the model's weights, and
            the contents of 16 batches from the first step to the last. Functions cannot be compared: that the
            loss is the same is up to you.
        device: "cpu", "cuda" or "mps"; the best there is if not given.
        progress: show a progress bar on an interactive terminal or notebook, and nowhere else.

    Raises:
        TypeError: an argument of another kind, or something else than one number from `loss` or `evaluate`.
        ValueError: an argument out of range, a model without anything to train, fewer batches than steps, a
            loss that does not depend on the model, or a checkpoint of another model or run.
        FloatingPointError: the loss or its gradient is not finite; the weights are those before that step.
    """
    steps, seed = _check_run(steps, seed, learning_rate, clip, evaluate, evaluate_every, checkpoint)
    _check_model(model)
    _check_batches(batches, steps, checkpoint)
    place = pick_device(device)
    model.to(place)
    run = _Run(model, learning_rate, steps, place)
    with torch.random.fork_rng(devices=run.cuda):
        torch.manual_seed(seed)
        first = 0
        if checkpoint:
            run.settings = {"seed": seed, "steps": steps, "learning_rate": run.rates, "clip": float(clip),
                            "evaluate_every": int(evaluate_every), "batches": _digest(batches, steps)}
            torch.manual_seed(seed)  # drawing batches may have used some
            first = run.resume(checkpoint) if Path(checkpoint).exists() else 0
        # Only a person watching sees the bar: it leaves nothing behind in a stored notebook.
        bar = tqdm(range(first, steps), initial=first, total=steps, leave=False, delay=0.5,
                   disable=not (progress and _is_watched()))
        for step, batch in zip(bar, _each_batch(batches, first, steps), strict=True):
            model.train()
            run.update(loss, on_device(batch, place), clip, step)
            last = step + 1 == steps
            if evaluate and (last or (step + 1) % evaluate_every == 0):
                run.keep_best(evaluate, step + 1)
                score = f"loss {run.history.loss[-1]:.3f}, dev {run.history.dev[-1]:.3f}"
                bar.set_postfix_str(score, refresh=False)  # to show it now would ignore the delay
                if checkpoint:
                    run.save(checkpoint, step + 1)
    return run.finish()


class _Run:
    """The state of one run: model, optimiser, scaler, history, best weights."""

    def __init__(self, model: nn.Module, learning_rate: float | Callable, steps: int, place: torch.device):
        self.model, self.steps, self.place = model, steps, place
        if callable(learning_rate):
            rates = _rates(learning_rate, steps)
            self.optimiser = torch.optim.Adam(model.parameters(), lr=1.0)
            self.schedule = torch.optim.lr_scheduler.LambdaLR(
                self.optimiser, lambda done: rates[min(done, steps - 1)]
            )
            self.rates = [float(f"{rate:.12g}") for rate in rates]  # machines differ in the last digits
        else:
            self.rates = float(learning_rate)
            self.optimiser = torch.optim.Adam(model.parameters(), lr=self.rates)
            self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, steps)
        self.parameters = dict(model.named_parameters())
        self.settings: dict[str, Any] = {}  # what must be the same in a run that goes on from a checkpoint
        self.mixed = place.type == "cuda"
        self.cuda = [place] if self.mixed else []  # devices with random numbers of their own
        self.scaler = torch.amp.GradScaler(enabled=self.mixed)
        self.history = History()
        self.best: dict[str, Tensor] | None = None

    def update(self, loss: Callable, batch: Any, clip: float, step: int) -> None:
        """One step: forward, backward, clip, move."""
        with torch.autocast("cuda", dtype=torch.float16, enabled=self.mixed):
            value = loss(self.model, batch)
        rate = self.schedule.get_last_lr()[0]
        _check_loss(value, step, rate)
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.scale(value).backward()
        self._check_gradients()
        self.scaler.unscale_(self.optimiser)  # clip the true gradients, not the scaled ones
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        # A scaled gradient may overflow float16. The scaler then leaves the weights alone and halves the
        # scale, so only what is left at scale 1, or was never scaled, is the loss's own doing.
        if not norm.isfinite() and self.scaler.get_scale() <= 1:
            raise FloatingPointError(
                f"the gradient has norm {norm.item()} at step {step}, and the loss is {value.item():.4g}: "
                f"lower learning_rate (now {rate:.2g}), or look in the loss for a root or logarithm of 0, or "
                "for a division by 0"
            )
        self.history.learning_rate.append(rate)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.schedule.step()
        self.history.loss.append(value.item())

    def _check_gradients(self) -> None:
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
        if not gradients:
            raise ValueError("loss does not depend on any parameter of model: is it another model's loss?")
        for name, gradient in gradients.items():
            if gradient.is_sparse:
                raise ValueError(f"model gives {name} a sparse gradient, and Adam needs a dense one: "
                                 "build the embedding with sparse=False")

    def keep_best(self, evaluate: Callable[[nn.Module], float], step: int) -> None:
        """Evaluate on the dev set, and remember the weights if they are the best so far."""
        self.model.eval()
        # What evaluation draws must not change the training: the result is the same however often we look.
        with torch.no_grad(), torch.random.fork_rng(devices=self.cuda):
            score = _score(evaluate(self.model))
        if math.isnan(score):
            raise FloatingPointError(f"evaluate returned nan after step {step}: it must return a number")
        if self.best is None or score < min(self.history.dev):
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
            self.history.best_step = step
        self.history.dev.append(score)
        self.history.dev_steps.append(step)

    def finish(self) -> History:
        """Load the best weights, if any were compared, and set the model to evaluation."""
        if self.best is not None:
            self.model.load_state_dict(self.best)
        self.model.eval()
        return self.history

    def save(self, checkpoint: str | Path, step: int) -> None:
        """Write everything the rest of the run depends on; a half-written file never replaces a whole one."""
        path = Path(checkpoint)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "step": step, "settings": self.settings,
            "model": self.model.state_dict(), "best": self.best,
            "optimiser": self.optimiser.state_dict(), "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(), "history": vars(self.history),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.place) if self.cuda else None,
        }
        partial = path.with_name(path.name + ".partial")
        torch.save(state, partial)
        partial.replace(path)

    def resume(self, checkpoint: str | Path) -> int:
        """Load a checkpoint and return the step to go on from; nothing is touched if it does not fit."""
        try:
            state = torch.load(checkpoint, map_location=self.place, weights_only=True)
            theirs = {name: state["settings"][name] for name in self.settings}
        except Exception as error:  # a file can be broken in as many ways as torch.load has errors
            raise ValueError(f"checkpoint {checkpoint} was not written by train, or is damaged ({error!r}): "
                             "delete it, or name another file") from error
        for name, mine in self.settings.items():
            if theirs[name] != mine:
                what, there, here = _difference(name, theirs[name], mine)
                raise ValueError(f"checkpoint {checkpoint} was made with {what} = {there}, and this "
                                 f"run has {what} = {here}: use the same, or another file")
        _check_weights(checkpoint, state["model"], self.model.state_dict())
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        if state["scaler"]:  # empty if that part of the run was not on a GPU
            self.scaler.load_state_dict(state["scaler"])
        self.history, self.best = History(**state["history"]), state["best"]
        torch.set_rng_state(state["random"].cpu())
        if self.cuda and state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.place)
        return state["step"]


def _each_batch(batches: Sequence[Any] | Iterable[Any], first: int, steps: int) -> Iterator[Any]:
    """The batch of each step from `first` on; what has no index is read from its beginning ever again."""
    if hasattr(batches, "__getitem__"):
        for step in range(first, steps):
            try:
                batch = batches[step]
            except IndexError as error:
                raise ValueError(_too_few(step, steps)) from error
            yield batch
        return
    step = first
    while step < steps:
        began = step
        for batch in islice(batches, steps - step):
            step += 1
            yield batch
        if step == began:
            raise ValueError(_too_few(step, steps))


def _too_few(given: int, steps: int) -> str:
    return (f"batches ends after {given}, and steps is {steps}: give a batch for each step (Batches goes on "
            "for ever), a DataLoader, which is read again, or fewer steps")


def _is_watched() -> bool:
    """Whether a person sees what is written now: in a terminal or a notebook, not in a pipe or a file."""
    if os.environ.get("ATTNCOURSE_QUIET") or sys.stderr is None:
        return False
    in_a_notebook = type(sys.stderr).__module__.partition(".")[0] == "ipykernel"  # which is no terminal
    return in_a_notebook or sys.stderr.isatty()


def _rates(learning_rate: Callable[[int], float], steps: int) -> list[float]:
    """The rate of every step, if each can be one."""
    rates = []
    for step in range(1, steps + 1):
        rate = learning_rate(step)
        try:
            rates.append(float(rate))
        except (TypeError, ValueError) as error:
            raise TypeError(f"learning_rate({step}) is {rate!r}: it must be a number") from error
        if not 0 <= rates[-1] < math.inf:
            raise ValueError(f"learning_rate({step}) is {rate}: it must be 0 or more, and finite")
    return rates


def _digest(batches: Sequence[Any], steps: int) -> str:
    """A few letters that differ if the batches do, as far as 16 of them tell, first and last included."""
    found = hashlib.blake2b(digest_size=6)

    def read(part: Any) -> None:
        if isinstance(part, Tensor):
            dense = part.detach().to_dense().cpu().contiguous()
            found.update(f"{dense.dtype} {tuple(dense.shape)}".encode())
            found.update(dense.reshape(-1).view(torch.uint8).numpy())
        elif isinstance(part, np.ndarray):
            read(torch.as_tensor(part) if part.dtype.kind in "biufc" else part.tolist())
        elif isinstance(part, Mapping):
            read(list(part.items()))
        elif isinstance(part, tuple | list):
            found.update(f"{len(part)} parts".encode())
            for inner in part:
                read(inner)
        elif isinstance(part, str | bytes | int | float | None):
            found.update(repr(part).encode())
        elif hasattr(part, "__dict__"):
            read(vars(part))

    for step in sorted({round(sixteenth * (steps - 1) / 15) for sixteenth in range(16)}):
        read(next(_each_batch(batches, step, steps)))
    return f"data with digest {found.hexdigest()}"


def _difference(name: str, theirs: Any, mine: Any) -> tuple[str, str, str]:
    """What two runs differ in, and its two values; of two schedules, the first step that differs."""
    if isinstance(theirs, list) and isinstance(mine, list):
        step = next(step for step, (a, b) in enumerate(zip(theirs, mine, strict=True)) if a != b)
        return f"{name} of step {step + 1}", str(theirs[step]), str(mine[step])
    return name, *(str([v[0], v[-1]] if isinstance(v, list) else v) for v in (theirs, mine))


def _check_weights(checkpoint: str | Path, theirs: dict, mine: dict) -> None:
    """Refuse a checkpoint of another model before a weight of this one is written over."""
    shapes = [{name: list(getattr(weight, "shape", ())) for name, weight in each.items()}
              for each in (theirs, mine)]
    for name in {**theirs, **mine}:
        there, here = (each.get(name, "missing") for each in shapes)
        if there != here:
            raise ValueError(f"checkpoint {checkpoint} does not fit this model: {name} is {there} there and "
                             f"{here} here")


def _score(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"evaluate returned {given!r}: it must return one number") from error


def _check_loss(value: Any, step: int, rate: float) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"loss returned {reprlib.repr(value)}: it must return a tensor with one number")
    if value.dim():
        raise ValueError(f"loss returned a tensor of shape {tuple(value.shape)}: it must be one number")
    if not torch.isfinite(value):
        raise FloatingPointError(f"the loss is {value.item()} at step {step}: lower learning_rate (now "
                                 f"{rate:.2g}), or look for a division by 0 or a log of 0 in the loss")
    if not value.requires_grad:
        raise ValueError("loss returned a number from which no gradient leads to model: was it detached, "
                         "taken under no_grad, or computed without model?")


def _check_model(model: nn.Module) -> None:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        frozen = any(True for _ in model.parameters())
        raise ValueError("model has nothing to train: "
                         + ("all its parameters are frozen" if frozen else "it has no parameters"))


def _check_batches(batches: Any, steps: int, checkpoint: str | Path | None) -> None:
    given = type(batches).__name__
    indexed = hasattr(batches, "__getitem__")
    if isinstance(batches, Mapping | str | bytes) or not (indexed or isinstance(batches, Iterable)):
        raise TypeError(f"batches is a {given}: give a sequence whose element k is the batch of step k, or a "
                        "DataLoader")
    if isinstance(batches, list | tuple) and len(batches) < steps:
        raise ValueError(_too_few(len(batches), steps))
    if checkpoint and not indexed:
        raise TypeError(f"batches is a {given}, which cannot be resumed in the middle: with a checkpoint "
                        "give a sequence whose element k is the batch of step k, such as Batches or a list")


def _check_run(steps, seed, learning_rate, clip, evaluate, evaluate_every, checkpoint) -> tuple[int, int]:
    """Refuse settings that cannot be; steps and seed as plain numbers."""
    whole = {"steps": steps, "seed": seed, "evaluate_every": 1 if evaluate_every is None else evaluate_every}
    for name, value in whole.items():
        try:
            whole[name] = index(value)
        except TypeError:
            raise TypeError(f"{name} is {value!r}: it must be a whole number") from None
    rates = {"clip": clip, **({} if callable(learning_rate) else {"learning_rate": learning_rate})}
    for name, value in rates.items():
        if isinstance(value, str) or not hasattr(value, "__float__"):
            raise TypeError(f"{name} is {value!r}: it must be a number" + " or a function" * (name != "clip"))
    if steps < 1:
        raise ValueError(f"steps is {steps}: it must be at least 1")
    if not callable(learning_rate) and not 0 < learning_rate < math.inf:
        raise ValueError(f"learning_rate is {learning_rate}: it must be positive and finite")
    if not clip > 0:
        raise ValueError(f"clip is {clip}: it must be positive (float('inf') turns clipping off)")
    if (evaluate is None) != (evaluate_every is None):
        raise ValueError("evaluate and evaluate_every go together: give both, or neither")
    if evaluate_every is not None and evaluate_every < 1:
        raise ValueError(f"evaluate_every is {evaluate_every}: it must be at least 1")
    if checkpoint and evaluate is None:
        raise ValueError("checkpoint is written at each evaluation: give evaluate and evaluate_every too")
    return whole["steps"], whole["seed"]
