"""The names under which this device's one model can be asked for, and which policy version each means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.request import UnknownModel

VERSION_MARK = "@"
_VERSION = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class ServedModel:
    """The model `name`; asked for as `name@3`, it answers under policy version 3 or not at all."""

    name: str

    def versioned(self, version: PolicyVersion) -> str:
        """The name that answers carry: `name@version`."""
        return f"{self.name}{VERSION_MARK}{version}"

    def pinned(self, asked: str, resident: Sequence[PolicyVersion]) -> PolicyVersion | None:
        """The version that `asked` pins, None when it takes the one in force.

        Raises UnknownModel unless `asked` names this model, and a version that is resident.
        """
        if asked == self.name:
            return None
        name, _, number = asked.rpartition(VERSION_MARK)
        if name == self.name and _VERSION.fullmatch(number) and int(number) in resident:
            return PolicyVersion(int(number))
        versions = ", ".join(str(version) for version in sorted(resident))
        raise UnknownModel(
            "This device does not serve the model that was asked for",
            f"it serves {self.name} under policy version {versions}",
            "ask for a name that GET /v1/models lists",
            field="model",
        )
