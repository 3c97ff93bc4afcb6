"""The training loop of every chapter: seeded, counted in steps, resumable, readable in one screen."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from attncourse.data.vocabulary import PAD


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
    """
    logits = model(batch.source, batch.source_lengths, batch.target_in).logits.flatten(0, 1).float()
    target = batch.target_out.flatten()
    if not smoothing:
        return F.cross_entropy(logits, target, ignore_index=PAD)
    log_probability = logits.log_softmax(-1)
    right = log_probability.gather(-1, target[:, None]).squeeze(-1)
    others = log_probability.sum(-1) - log_probability[:, PAD] - right
    share = smoothing / (logits.shape[-1] - 2)
    return -((1 - smoothing) * right + share * others)[target != PAD].mean()


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
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be at least 1")
    return width**-0.5 * min(step**-0.5, step * warm_up**-1.5)


def pick_device(name: str | None = None) -> torch.device:
    """The best device there is: CUDA, then Apple's MPS, then the CPU; `ATTNCOURSE_DEVICE` overrides.

    Raises:
        ValueError: a device that this machine does not have.
    """
    wanted = name or os.environ.get("ATTNCOURSE_DEVICE")
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
    batches: Sequence[Any],
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
        batches: `batches[step]` is the batch of that step, with a method `to(device)`.
        steps: how many updates in all; a resumed run counts those already made.
        learning_rate: the first and highest one, from which a cosine leads to zero; or a function that gives
            the rate of each step, counted from 1, such as `warm_up_rate` with its width and warm-up.
        clip: largest norm of the gradient.
        seed: of dropout and everything else that is drawn during training.
        evaluate: model -> a score on the dev set, lower is better; the best weights are kept.
        evaluate_every: steps between two evaluations.
        checkpoint: file written at each evaluation; if it exists, the run goes on from it, with the result
            of a run that was never interrupted.
        device: "cpu", "cuda" or "mps"; the best there is if not given.
        progress: show a progress bar on an interactive terminal or notebook.

    Raises:
        ValueError: an argument out of range, or a checkpoint of another model or run.
        FloatingPointError: the loss is not finite.
    """
    _check_run(steps, learning_rate, clip, evaluate, evaluate_every, checkpoint)
    place = pick_device(device)
    model.to(place)
    run = _Run(model, learning_rate, steps, place)
    with torch.random.fork_rng(devices=run.cuda):
        torch.manual_seed(seed)
        first = run.resume(checkpoint, seed) if checkpoint and Path(checkpoint).exists() else 0
        # Only a person watching sees the bar: it leaves nothing behind in a stored notebook.
        bar = tqdm(range(first, steps), initial=first, total=steps, leave=False, delay=0.5,
                   disable=not progress or bool(os.environ.get("ATTNCOURSE_QUIET")))
        for step in bar:
            model.train()
            run.update(loss, batches[step].to(place), clip, step)
            last = step + 1 == steps
            if evaluate and (last or (step + 1) % evaluate_every == 0):
                run.keep_best(evaluate, step + 1)
                score = f"loss {run.history.loss[-1]:.3f}, dev {run.history.dev[-1]:.3f}"
                bar.set_postfix_str(score, refresh=False)  # to show it now would ignore the delay
                if checkpoint:
                    run.save(checkpoint, seed, step + 1)
    return run.finish()


class _Run:
    """The state of one run: model, optimiser, scaler, history, best weights."""

    def __init__(self, model: nn.Module, learning_rate: float | Callable, steps: int, place: torch.device):
        self.model, self.steps, self.place = model, steps, place
        if callable(learning_rate):
            self.optimiser = torch.optim.Adam(model.parameters(), lr=1.0)
            self.schedule = torch.optim.lr_scheduler.LambdaLR(
                self.optimiser, lambda done: learning_rate(min(done + 1, steps))
            )
            self.rates = [learning_rate(1), learning_rate(steps)]
        else:
            self.optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
            self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, steps)
            self.rates = learning_rate
        self.mixed = place.type == "cuda"
        self.cuda = [place] if self.mixed else []  # devices with random numbers of their own
        self.scaler = torch.amp.GradScaler(enabled=self.mixed)
        self.history = History()
        self.best: dict[str, Tensor] | None = None

    def update(self, loss: Callable, batch: Any, clip: float, step: int) -> None:
        """One step: forward, backward, clip, move."""
        with torch.autocast("cuda", dtype=torch.float16, enabled=self.mixed):
            value = loss(self.model, batch)
        if value.dim():
            raise ValueError(f"loss returned a tensor of shape {tuple(value.shape)}: it must be one number")
        if not torch.isfinite(value):
            rate = self.schedule.get_last_lr()[0]
            raise FloatingPointError(f"the loss is {value.item()} at step {step}: lower learning_rate (now "
                                     f"{rate:.2g}), or look for a division by 0 or a log of 0 in the loss")
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.scale(value).backward()
        self.scaler.unscale_(self.optimiser)  # clip the true gradients, not the scaled ones
        nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.history.learning_rate.append(self.schedule.get_last_lr()[0])
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.schedule.step()
        self.history.loss.append(value.item())

    def keep_best(self, evaluate: Callable[[nn.Module], float], step: int) -> None:
        """Evaluate on the dev set, and remember the weights if they are the best so far."""
        self.model.eval()
        # What evaluation draws must not change the training: the result is the same however often we look.
        with torch.no_grad(), torch.random.fork_rng(devices=self.cuda):
            score = float(evaluate(self.model))
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

    def save(self, checkpoint: str | Path, seed: int, step: int) -> None:
        """Write everything the rest of the run depends on; a half-written file never replaces a whole one."""
        path = Path(checkpoint)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "step": step, "seed": seed, "steps": self.steps, "learning_rate": self.rates,
            "model": self.model.state_dict(), "best": self.best,
            "optimiser": self.optimiser.state_dict(), "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(), "history": vars(self.history),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.place) if self.place.type == "cuda" else None,
        }
        partial = path.with_name(path.name + ".partial")
        torch.save(state, partial)
        partial.replace(path)

    def resume(self, checkpoint: str | Path, seed: int) -> int:
        """Load a checkpoint and return the step to go on from."""
        mine = {"seed": seed, "steps": self.steps, "learning_rate": self.rates}
        try:
            state = torch.load(checkpoint, map_location=self.place, weights_only=True)
            theirs = {name: state[name] for name in mine}
        except Exception as error:  # a file can be broken in as many ways as torch.load has errors
            raise ValueError(f"checkpoint {checkpoint} was not written by train, or is damaged ({error!r}): "
                             "delete it, or name another file") from error
        for name, value in mine.items():
            if theirs[name] != value:
                raise ValueError(f"checkpoint {checkpoint} was made with {name} = {theirs[name]}, and this "
                                 f"run has {name} = {value}: use the same, or another file")
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise ValueError(f"checkpoint {checkpoint} does not fit this model: {error}") from error
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.history, self.best = History(**state["history"]), state["best"]
        torch.set_rng_state(state["random"].cpu())
        if state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.place)
        return state["step"]


def _check_run(steps, learning_rate, clip, evaluate, evaluate_every, checkpoint) -> None:
    if steps < 1:
        raise ValueError(f"steps is {steps}: it must be at least 1")
    if not callable(learning_rate) and not learning_rate > 0:
        raise ValueError(f"learning_rate is {learning_rate}: it must be positive")
    if not clip > 0:
        raise ValueError(f"clip is {clip}: it must be positive (float('inf') turns clipping off)")
    if (evaluate is None) != (evaluate_every is None):
        raise ValueError("evaluate and evaluate_every go together: give both, or neither")
    if evaluate_every is not None and evaluate_every < 1:
        raise ValueError(f"evaluate_every is {evaluate_every}: it must be at least 1")
    if checkpoint and evaluate is None:
        raise ValueError("checkpoint is written at each evaluation: give evaluate and evaluate_every too")
