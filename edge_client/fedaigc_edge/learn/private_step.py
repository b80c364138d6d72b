"""Noised gradient steps through Opacus, and guards that make a dead or wrongly clipped step fail at once.

Formal guarantee of `private_steps`: each step releases (sum over pairs of gradients clipped to `clip_norm`)
+ noise, with independent normal noise of deviation noise_multiplier x clip_norm, times a public constant.
One pair added or removed moves the sum by at most clip_norm, so `steps` steps cost
Mechanism(noise_multiplier, 1.0, steps).

| what may go wrong in silence | what stops it |
|---|---|
| a hook is detached, a parameter frozen: nothing is trained | no parameter's clipped sum may be 0 |
| gradients per answer, not per pair: half the noise that is needed | one gradient row a pair, counted |
| another version of Opacus clips differently | the sum is compared with our own (fedaigc.clipping) |
| the mean over the private number of pairs | sums only; the denominator is public (StepPlan.scale) |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from opacus.grad_sample import GradSampleHooks
from opacus.optimizers import DPOptimizer

from fedaigc.arrays import FloatArray
from fedaigc.clipping import ClipNorm
from fedaigc.errors import TrainingFailed, VerificationFailed
from fedaigc.round_plan import StepPlan
from fedaigc_edge.learn.system_noise import NoiseSource

Batch = TypeVar("Batch", bound=Sized)
Progress = Callable[[int, int], None]
"""Told how many batches are done, of how many."""

CLIP_TOLERANCE = 1e-4
"""Opacus sums in float32, we in float64: a clipped gradient may differ by this part of the clip norm."""


def private_steps(
    module: torch.nn.Module,
    batches: Sequence[Batch],
    losses: Callable[[Batch], torch.Tensor],
    plan: StepPlan,
    expected_pairs: int,
    noise: NoiseSource,
    progress: Progress = lambda done, total: None,
) -> None:
    """Take `plan.steps` full-batch noised steps on the trainable parameters of `module`, in place.

    Args:
        module: in training mode, complete and where it will stay; hooks are put on and off here.
        batches: all pairs, each in exactly one batch; a batch's length is its number of pairs.
        losses: a batch's losses, (pairs,), one a pair.
        expected_pairs: the public denominator.
        noise: standard normal numbers.

    Raises TrainingFailed when a guard stops the step; the module is then worthless.
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters or not batches or not module.training:
        raise _dead("there is nothing to train, nothing to train on, or the model is not in training mode")
    scale = plan.scale(sum(p.numel() for p in parameters), expected_pairs)
    hooks = GradSampleHooks(module, loss_reduction="sum")
    optimizer = _NoisedOptimizer(torch.optim.SGD(parameters, lr=scale), plan, noise)
    try:
        for step in range(plan.steps):
            before = [p.detach().clone() for p in parameters]
            optimizer.start_sum()
            for number, batch in enumerate(batches):
                optimizer.zero_grad(set_to_none=True)
                losses(batch).sum().backward()  # type: ignore[no-untyped-call]
                optimizer.count(len(batch))
                optimizer.signal_skip_step(do_skip=number < len(batches) - 1)
                optimizer.step()
                progress(step * len(batches) + number + 1, plan.steps * len(batches))
            _check_moved(before, parameters)
    finally:
        hooks.cleanup()


def linear_head(weights: FloatArray) -> torch.nn.Linear:
    """A linear layer without bias from (dim,) weights, ready to train."""
    head = torch.nn.Linear(weights.size, 1, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weights.copy())[None])
    return head


def head_weights(head: torch.nn.Linear) -> FloatArray:
    """The weights of `linear_head`, (dim,)."""
    weights: FloatArray = head.weight.detach().numpy()[0].copy()
    return weights


def bradley_terry(head: torch.nn.Linear, differences: FloatArray) -> torch.Tensor:
    """-log P(chosen beats rejected) for feature differences chosen - rejected: (pairs, dim) -> (pairs,)."""
    scores = head(torch.from_numpy(differences))[:, 0]
    return torch.nn.functional.softplus(-scores)


class _NoisedOptimizer(DPOptimizer):  # type: ignore[misc]  # Opacus has no types
    """Opacus' clipping and accumulation, with our noise source and our guards between sum and noise."""

    def __init__(self, optimizer: torch.optim.Optimizer, plan: StepPlan, noise: NoiseSource) -> None:
        super().__init__(
            optimizer,
            noise_multiplier=plan.noise_multiplier,
            max_grad_norm=plan.clip_norm,
            expected_batch_size=None,
            loss_reduction="sum",
        )
        self._clip = ClipNorm(plan.clip_norm)
        self._noise = noise
        self.start_sum()

    def start_sum(self) -> None:
        """Begin a step: nothing is summed yet."""
        self._expected: npt.NDArray[np.float64] | float = 0.0
        self._pairs = 0

    def count(self, pairs: int) -> None:
        """Check the gradients of a batch of `pairs` pairs and add their clipped sum to our own."""
        rows = []
        for parameter in self.params:
            sample = getattr(parameter, "grad_sample", None)
            if not isinstance(sample, torch.Tensor):
                raise _dead("a trained parameter got no gradient")
            if sample.shape[0] != pairs:
                raise TrainingFailed(
                    "Gradients are not one a pair",
                    f"{sample.shape[0]} rows for {pairs} pairs would break the privacy guarantee",
                    "report this: it is a defect",
                )
            rows.append(sample.detach().reshape(pairs, -1).numpy())
        try:
            self._expected = self._expected + self._clip.total(np.concatenate(rows, axis=1))
        except VerificationFailed as error:
            raise TrainingFailed(error.what, error.why, error.do_next) from None
        self._pairs += pairs

    def add_noise(self) -> None:
        """Compare the sum with our own, then add noise to it; called by Opacus once a step."""
        sums = [parameter.summed_grad for parameter in self.params]
        if not all(bool(torch.count_nonzero(total)) for total in sums):
            raise _dead("the clipped gradients of a trained parameter sum to zero")
        flat = torch.cat([total.reshape(-1) for total in sums]).double().numpy()
        difference = float(np.linalg.norm(flat - self._expected))
        if not difference <= CLIP_TOLERANCE * self.max_grad_norm * self._pairs:
            raise TrainingFailed(
                "Opacus clipped otherwise than expected",
                "its sum differs from an independent one",
                "install the versions that the constraints file names",
            )
        deviation = self.noise_multiplier * self.max_grad_norm
        for parameter, total in zip(self.params, sums, strict=True):
            drawn = torch.from_numpy(deviation * self._noise(total.numel())).reshape(total.shape)
            parameter.grad = (total.double() + drawn).to(total.dtype).view_as(parameter)


def _check_moved(before: Sequence[torch.Tensor], after: Sequence[torch.nn.Parameter]) -> None:
    for old, new in zip(before, after, strict=True):
        if torch.equal(old, new) or not bool(torch.isfinite(new).all()):
            raise _dead("a trained parameter did not move, or is not finite")


def _dead(why: str) -> TrainingFailed:
    return TrainingFailed(
        "The update is dead", why, "report this: epsilon was spent, but nothing was sent and nothing learned"
    )
