"""The names under which this device's one model can be asked for, and which policy version each means."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.request import UnknownModel

VERSION_MARK = "@"


@dataclass(frozen=True)
class ServedModel:
    """The model `name`; asked for as `name@3`, it answers under policy version 3 or not at all."""

    name: str

    def versioned(self, version: PolicyVersion) -> str:
        """The name that answers carry: `name@version`."""
        return f"{self.name}{VERSION_MARK}{version}"

    def check(self, asked: str, version: PolicyVersion) -> None:
        """Raise UnknownModel unless `asked` names this model under the policy `version` in force."""
        if asked not in (self.name, self.versioned(version)):
            raise UnknownModel(
                "This device does not serve the model that was asked for",
                f"it serves {self.name} under policy version {version}",
                "ask for a name that GET /v1/models lists",
                field="model",
            )
