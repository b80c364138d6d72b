"""The trainer's process: one task, one core, lowest priority, bounded memory; it dies without harm.

    python -m fedaigc_edge.learn.trainer JOB_FOLDER

It reads no database and no network, and prints nothing: what it has to say is in its job's folder.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import warnings
from pathlib import Path

from fedaigc.errors import FedaigcError, TrainingFailed
from fedaigc_edge.learn.training_job import (
    Trained,
    TrainingJob,
    read_job,
    write_failure,
    write_progress,
    write_trained,
)

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
}
"""One thread, no network, no output; read by the libraries when they are first imported."""


def main(arguments: list[str]) -> int:
    """Do the task in the named folder; 0 when its result holds an update, 1 when it holds a reason."""
    folder = Path(arguments[0])
    try:
        job = read_job(folder)
        _confine(job.memory_bytes)
        write_trained(folder, train(job, folder), job)
    except FedaigcError as error:
        write_failure(folder, error)
        return 1
    except Exception as error:  # its text may quote a pair: only the type is told
        write_failure(folder, _unexpected(error))
        return 1
    return 0


def train(job: TrainingJob, folder: Path) -> Trained:
    """Adapter first, then the reward head on the features of the same pass. Raises TrainingFailed."""
    from fedaigc_edge.learn.policy_training import train_policy
    from fedaigc_edge.learn.reward_training import train_head
    from fedaigc_edge.learn.torch_policy import TorchPolicy

    plan = job.plan
    write_progress(folder, "loading", 0, 1)
    policy = TorchPolicy.open(job.hf, job.adapter, plan.head_layer)
    trained = train_policy(
        policy,
        job.pairs,
        plan.lora,
        plan.expected_pairs,
        progress=lambda done, total: write_progress(folder, "adapter", done, total),
    )
    write_progress(folder, "head", 0, 1)
    head_delta = train_head(job.head, trained.differences, plan.head, plan.expected_pairs)
    return Trained(trained.delta, head_delta)


def _confine(memory_bytes: int) -> None:
    os.environ.update(ENVIRONMENT)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # Private memory, not address space: torch maps far more of the latter than it ever touches.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _unexpected(error: Exception) -> TrainingFailed:
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate" in str(error)):
        return TrainingFailed(
            "The trainer ran out of memory",
            "the device limits what training may take",
            "close other programs, or serve a smaller model",
        )
    if isinstance(error, ImportError):
        return TrainingFailed(
            "This device cannot train",
            "a package of the extra [train] is missing",
            'run: pip install "fedaigc[edge,train]"',
        )
    return TrainingFailed("The trainer failed", type(error).__name__, "report this: it is a defect")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
