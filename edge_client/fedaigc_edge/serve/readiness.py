"""Whether the device can answer now, and if not, why: it says so from its first second to its last."""

from __future__ import annotations

from collections.abc import Mapping

from fedaigc.errors import FedaigcError, Unavailable
from fedaigc_edge.serve.pipeline import Pipeline

LOADING = Unavailable(
    "This device is still loading its model", "it started a moment ago", "try again in a few seconds"
)


class Readiness:
    """Holds the pipeline once the model is loaded, and takes it away when the device may not serve."""

    def __init__(self) -> None:
        self._pipeline: Pipeline | None = None
        self._reason: FedaigcError = LOADING

    def open(self, pipeline: Pipeline) -> None:
        """From now on requests are served."""
        self._pipeline = pipeline

    def close(self, reason: FedaigcError) -> None:
        """From now on requests get `reason` (revoked, stopping); those that run end normally."""
        self._pipeline = None
        self._reason = reason

    @property
    def gate_problem(self) -> bool:
        """Whether a newer rule file was refused, so that older rules are in force."""
        return self._pipeline is not None and self._pipeline.gate.problem is not None

    def figures(self) -> Mapping[str, float]:
        """The engine's gauges, none while nothing is served."""
        return {} if self._pipeline is None else self._pipeline.figures()

    async def remembered(self) -> None:
        """Return when every answer that was sealed before now can be given feedback."""
        if self._pipeline is not None:
            await self._pipeline.remembered()

    def pipeline(self) -> Pipeline:
        """The pipeline; raises the reason why there is none."""
        if self._pipeline is None:
            raise self._reason.with_traceback(None)
        return self._pipeline
