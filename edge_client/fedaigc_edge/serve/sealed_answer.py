"""Make an answer's evidence durable: only then may its last byte leave."""

from __future__ import annotations

import asyncio
from dataclasses import InitVar, dataclass

from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.evidence.output import Output, SealedOutput
from fedaigc_edge.serve.answer import Answer
from fedaigc_edge.step import Maker, made_only_by


class _Seal(Maker):
    """Held by this module alone."""


_SEAL = _Seal()


@dataclass(frozen=True)
class SealedAnswer:
    """An answer whose evidence is on disk. Made by `seal` only; its receipt comes with the next delivery."""

    answer: Answer
    evidence: SealedOutput
    maker: InitVar[_Seal]

    def __post_init__(self, maker: _Seal) -> None:
        made_only_by(maker, _SEAL, "seal")


async def seal(answer: Answer, outbox: Outbox, base_model: str) -> SealedAnswer:
    """Fingerprint, number and write; `base_model` is the model's BLAKE3, hexadecimal.

    Raises StorageError when the evidence could not be written: the answer must not be completed then.
    """
    permit = answer.head.reservation.permit
    output = Output(
        request=permit.request.id,
        text=answer.text,
        policy=answer.head.policy,
        rules=permit.rules,
        model=base_model,
        finish=answer.finish,
        tokens=answer.tokens,
    )
    # Shielded: once submitted it will be written, whether or not anybody still waits.
    evidence = await asyncio.shield(asyncio.wrap_future(outbox.seal(output)))
    return SealedAnswer(answer, evidence, _SEAL)
