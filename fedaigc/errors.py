"""The one error tree: every error says what happened, why, and what to do next.

FedaigcError
├── SettingsError            a settings file, option or environment value is wrong
├── StorageError             a local file or database cannot be read or written
│   └── FolderInUse          another process holds the folder's lock
├── IdentityError            keys or enrolment on this machine are missing or damaged
├── JoinTokenError           a join token is malformed, expired, used or unknown
├── NotAuthorised            the other side does not know, or no longer trusts, this node or key
├── RequestInvalid           a caller's request cannot be served as asked
├── Denied                   the gate refused a request or an answer
├── BudgetExceeded           the token budget has no room for a request
├── Busy                     too many requests wait; try again later
├── ModelError               a model cannot be fetched, exported or loaded
├── VerificationFailed       a signature, hash, proof or chain does not check
├── LedgerError              the ledger cannot append or answer
├── PrivacyBudgetExceeded    the next step would pass the privacy limit
├── TrainingFailed           a local round produced no usable update
├── UpdateRefused            the server will not count a node's update
├── RoundFailed              a round closed without a result
├── Unavailable              the other side cannot be reached now
└── ProcessFailed            a process that we supervise does not run
"""

from __future__ import annotations

import json
from typing import ClassVar


class FedaigcError(Exception):
    """The base of every error that leaves one of our packages.

    Args:
        what: what happened, one sentence without a final stop.
        why: the cause as far as it is known.
        do_next: what the reader can do about it.

    None of the three may ever hold prompt, answer or feedback text, or a key.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"

    def __init__(self, what: str, why: str = "", do_next: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.do_next = do_next

    def __str__(self) -> str:
        """One line: what, why and what to do next."""
        parts = [self.what]
        if self.why:
            parts.append(f"Why: {self.why}")
        if self.do_next:
            parts.append(f"Next: {self.do_next}")
        return ". ".join(part.rstrip(".") for part in parts) + "."

    def told(self, as_json: bool) -> str:
        """The error as a command prints it: a line of text, or `{"error": {...}}`."""
        return json.dumps({"error": self.as_json()}, ensure_ascii=False) if as_json else f"Error: {self}"

    def as_json(self) -> dict[str, str]:
        """The error as the object that our HTTP faces and `--json` print."""
        return {"code": self.code, "what": self.what, "why": self.why, "do_next": self.do_next}


def parts_of(line: str) -> tuple[str, str, str]:
    """What, why and what to do next of an error that was told as one line; other text is all `what`."""
    rest, _, do_next = line.removesuffix(".").partition(". Next: ")
    what, _, why = rest.partition(". Why: ")
    return what, why, do_next


class SettingsError(FedaigcError):
    """A settings file, option or environment value is wrong."""

    exit_code = 2
    code = "settings"


class StorageError(FedaigcError):
    """A local file or database cannot be read or written."""

    exit_code = 3
    code = "storage"


class FolderInUse(StorageError):
    """Another process holds the folder's lock."""

    code = "folder_in_use"


class IdentityError(FedaigcError):
    """Keys or enrolment on this machine are missing or damaged."""

    exit_code = 4
    code = "identity"


class JoinTokenError(FedaigcError):
    """A join token is malformed, expired, used or unknown."""

    exit_code = 5
    code = "join_token"


class NotAuthorised(FedaigcError):
    """The other side does not know, or no longer trusts, this node or key."""

    exit_code = 6
    code = "not_authorised"


class RequestInvalid(FedaigcError):
    """A caller's request cannot be served as asked; `field` names the offending part."""

    exit_code = 2
    code = "invalid_request"

    def __init__(self, what: str, why: str = "", do_next: str = "", field: str | None = None) -> None:
        super().__init__(what, why, do_next)
        self.field = field


class Denied(FedaigcError):
    """The gate refused a request or an answer; `rule` is the deciding rule's id."""

    exit_code = 7
    code = "policy_violation"

    def __init__(self, what: str, why: str = "", do_next: str = "", rule: str = "") -> None:
        super().__init__(what, why, do_next)
        self.rule = rule


class BudgetExceeded(FedaigcError):
    """The token budget has no room for a request; `retry_after_s` says when it may have."""

    exit_code = 8
    code = "budget_exceeded"

    def __init__(self, what: str, why: str = "", do_next: str = "", retry_after_s: int = 60) -> None:
        super().__init__(what, why, do_next)
        self.retry_after_s = retry_after_s


class Busy(FedaigcError):
    """Too many requests wait; `retry_after_s` says when to try again."""

    exit_code = 8
    code = "busy"

    def __init__(self, what: str, why: str = "", do_next: str = "", retry_after_s: int = 1) -> None:
        super().__init__(what, why, do_next)
        self.retry_after_s = retry_after_s


class ModelError(FedaigcError):
    """A model cannot be fetched, exported or loaded."""

    exit_code = 9
    code = "model"


class VerificationFailed(FedaigcError):
    """A signature, hash, proof or chain does not check. The only error that verification raises."""

    exit_code = 10
    code = "verification_failed"


class LedgerError(FedaigcError):
    """The ledger cannot append or answer."""

    exit_code = 11
    code = "ledger"


class PrivacyBudgetExceeded(FedaigcError):
    """The next step would pass the privacy limit, so no data was read."""

    exit_code = 12
    code = "privacy_budget"


class TrainingFailed(FedaigcError):
    """A local round produced no usable update."""

    exit_code = 13
    code = "training"


class UpdateRefused(FedaigcError):
    """The server will not count a node's update."""

    exit_code = 14
    code = "update_refused"


class RoundFailed(FedaigcError):
    """A round closed without a result."""

    exit_code = 14
    code = "round_failed"


class Unavailable(FedaigcError):
    """The other side cannot be reached now; trying again later may help."""

    exit_code = 15
    code = "unavailable"


class ProcessFailed(FedaigcError):
    """A process that we supervise does not run."""

    exit_code = 16
    code = "process"
