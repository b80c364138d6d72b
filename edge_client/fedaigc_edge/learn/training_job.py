"""The folder through which the daemon and the trainer's process speak: a private task in, noised arrays out.

job.json       where the model is; the key that signed the plan
plan           the signed round plan
adapter, head  the parent's, as safetensors
pairs.json     the judged pairs: private, erased with the folder
progress.json  stage and counts, written by the trainer
delta, head_delta, result.json   what came of it; result.json is written last

The folder has mode 0700 and is erased when the round ends, and at the next start if it could not be.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaigc.adapter import Adapter
from fedaigc.arrays import FloatArray
from fedaigc.canonical import Json, parse_record
from fedaigc.errors import FedaigcError, TrainingFailed, VerificationFailed
from fedaigc.fields import Fields
from fedaigc.files import private_folder, write_private
from fedaigc.preference import Preference
from fedaigc.reward_head import RewardHead
from fedaigc.round_plan import MAX_DEVICE_PAIRS, RoundPlan
from fedaigc.signing import PublicKey

MEMORY_BYTES = 6 << 30
"""Private memory that the trainer may take; SmolLM2-135M peaks at 1.2 GiB."""

MAX_PAIRS_BYTES = 256 << 20
MAX_SMALL_BYTES = 64 << 10
MAX_SENTENCE = 300
_FOLDER = "job-"


@dataclass(frozen=True)
class TrainingJob:
    """One round's task for the trainer."""

    hf: Path
    plan: RoundPlan
    adapter: Adapter
    head: RewardHead
    pairs: tuple[Preference, ...]
    memory_bytes: int = MEMORY_BYTES


@dataclass(frozen=True)
class Trained:
    """What the trainer made: the noised changes of B and of the reward head, (dim,)."""

    adapter_delta: Adapter
    head_delta: FloatArray


def new_job(
    jobs: Path,
    hf: Path,
    plan: bytes,
    release_key: PublicKey,
    adapter: Adapter,
    head: RewardHead,
    pairs: Sequence[Preference],
    memory_bytes: int = MEMORY_BYTES,
) -> Path:
    """Write a task into a new private folder under `jobs` and return it. Raises StorageError."""
    folder = private_folder(private_folder(jobs) / f"{_FOLDER}{secrets.token_hex(8)}")
    write_private(folder / "pairs.json", _json({"pairs": [pair.to_json() for pair in pairs]}))
    write_private(folder / "plan", plan)
    write_private(folder / "adapter", adapter.to_bytes())
    write_private(folder / "head", head.to_bytes())
    about = {"hf": str(hf), "release_key": release_key.text(), "memory_bytes": memory_bytes}
    write_private(folder / "job.json", _json(about))
    return folder


def read_job(folder: Path) -> TrainingJob:
    """Read and check a task, in the trainer. Raises TrainingFailed, VerificationFailed."""
    fields = Fields(parse_record(_read(folder / "job.json"), MAX_SMALL_BYTES), "job")
    pairs = Fields(parse_record(_read(folder / "pairs.json"), MAX_PAIRS_BYTES), "pairs")
    return TrainingJob(
        hf=Path(fields.text("hf", 4096)),
        plan=RoundPlan.open(_read(folder / "plan"), PublicKey.from_text(fields.text("release_key"))),
        adapter=Adapter.from_bytes(_read(folder / "adapter")),
        head=RewardHead.from_bytes(_read(folder / "head")),
        pairs=tuple(Preference.from_json(item) for item in pairs.listed("pairs", MAX_DEVICE_PAIRS)),
        memory_bytes=fields.integer("memory_bytes", 1),
    )


def write_trained(folder: Path, trained: Trained, job: TrainingJob) -> None:
    """Leave what was made, in the trainer."""
    head = RewardHead(trained.head_delta, job.head.layer, job.head.base_model)
    write_private(folder / "delta", trained.adapter_delta.to_bytes())
    write_private(folder / "head_delta", head.to_bytes())
    write_private(folder / "result.json", _json({"ok": True}))


def write_failure(folder: Path, error: FedaigcError) -> None:
    """Leave why nothing was made, in the trainer: an error of our tree, which never holds text of a pair."""
    write_private(folder / "result.json", _json({"ok": False, "error": error.as_json()}))


def write_progress(folder: Path, stage: str, done: int, total: int) -> None:
    """Say how far the trainer is."""
    write_private(folder / "progress.json", _json({"stage": stage, "done": done, "total": total}))


def read_progress(folder: Path) -> dict[str, Json]:
    """How far the trainer is: stage, done, total; `starting` before it said anything."""
    try:
        fields = Fields(parse_record(_read(folder / "progress.json"), MAX_SMALL_BYTES), "progress")
        return {
            "stage": fields.text("stage", 32),
            "done": fields.integer("done"),
            "total": fields.integer("total"),
        }
    except FedaigcError:
        return {"stage": "starting", "done": 0, "total": 0}


def read_trained(folder: Path, exit_code: int) -> Trained:
    """What the trainer made; raises TrainingFailed with its reason, or with the exit code if it gave none."""
    try:
        fields = Fields(parse_record(_read(folder / "result.json"), MAX_SMALL_BYTES), "result")
    except (TrainingFailed, VerificationFailed):
        raise _ended(exit_code) from None
    if fields.record.get("ok") is not True:
        error = fields.inner("error")
        raise TrainingFailed(*(error.text(part, 1000)[:MAX_SENTENCE] for part in ("what", "why", "do_next")))
    return Trained(
        Adapter.from_bytes(_read(folder / "delta")),
        RewardHead.from_bytes(_read(folder / "head_delta")).weights,
    )


def erase_job(folder: Path) -> None:
    """Delete one task with its pairs."""
    shutil.rmtree(folder, ignore_errors=True)


def erase_leftovers(jobs: Path) -> int:
    """Delete the tasks that an earlier, killed daemon left; returns how many."""
    left = list(jobs.glob(f"{_FOLDER}*")) if jobs.is_dir() else []
    for folder in left:
        erase_job(folder)
    return len(left)


def _ended(exit_code: int) -> TrainingFailed:
    reasons = {-9: "it was killed, perhaps for lack of memory", -15: "it was asked to stop"}
    return TrainingFailed(
        "The trainer ended without a result",
        reasons.get(exit_code, f"exit code {exit_code}"),
        "see logs/trainer.log; free some memory, then run another round",
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TrainingFailed(
            f"The task's {path.name} cannot be read", error.strerror or "", "run another round"
        ) from None


def _json(value: Json) -> bytes:
    return json.dumps(value).encode("ascii")
