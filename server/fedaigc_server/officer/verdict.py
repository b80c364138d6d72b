"""Judge what the ledger answered: nothing counts but what the receipt, the opening and the content prove."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedaigc.canonical import Json, parse_canonical
from fedaigc.errors import FedaigcError, LedgerError, VerificationFailed
from fedaigc.fields import Fields
from fedaigc.fingerprint import DIGEST_BYTES, SALT_BYTES, Fingerprint, commitment_opens
from fedaigc.ledger_check import CheckedEntry, check_receipt
from fedaigc.sealing import SealingKey
from fedaigc.signed_note import Checkpoint, open_checkpoint
from fedaigc.signing import unb64

EXACT = "exact"
CANONICAL = "canonical"
NO_MATCH = "no match"
UNDECIDED = "undecided"
"""Nothing of what was returned is proven, and there is more that was not returned."""

OPENING_PURPOSE = "opening"
MAX_MATCHES = 1_000
_STATED_TWICE = ("seq", "policy", "rules", "model", "labels")


@dataclass(frozen=True)
class Opening:
    """What was sealed to the tenant when an output was recorded: enough to open its commitment."""

    salt: bytes = field(repr=False)
    fingerprint: Fingerprint
    record: dict[str, Json] = field(repr=False)

    @classmethod
    def unseal(cls, sealed: bytes, tenant: SealingKey) -> Opening:
        """Decrypt and read an opening; raises VerificationFailed."""
        fields = Fields(parse_canonical(tenant.open(OPENING_PURPOSE, sealed)), "opening")
        fields.only("salt", "raw", "canonical", "record")
        digests = [unb64(fields.text(name), DIGEST_BYTES) for name in ("raw", "canonical")]
        salt = unb64(fields.text("salt"), SALT_BYTES)
        return cls(salt, Fingerprint(*digests), dict(fields.inner("record").record))


@dataclass(frozen=True)
class ProvenMatch:
    """An output that is proven to be this content, and to be in the ledger."""

    verdict: str
    """`exact`: the same bytes; `canonical`: the same text, copied with other spaces or forms."""
    checked: CheckedEntry
    record: dict[str, Json]
    receipt: str = field(repr=False)
    sealed: bytes = field(repr=False)

    @property
    def index(self) -> int:
        """Its place in the ledger."""
        return self.checked.index


@dataclass(frozen=True)
class UnprovenMatch:
    """Something the ledger returned that proves nothing; `why` says what is missing or wrong."""

    index: int | None
    why: str
    erased: bool = False
    """The opening was erased, as the law may ask; otherwise something is false."""


@dataclass(frozen=True)
class SearchVerdict:
    """The answer to one search, after every proof was checked on this machine."""

    proven: tuple[ProvenMatch, ...]
    unproven: tuple[UnprovenMatch, ...]
    total: int
    """Matches that the ledger says it has; it returns at most the first 100."""
    checkpoint: Checkpoint
    note: str = field(repr=False)

    @property
    def verdict(self) -> str:
        """The best that is proven: `exact`, `canonical`, `no match`, or `undecided` when the list is cut."""
        verdicts = {match.verdict for match in self.proven}
        cut = self.total > len(self.proven) + len(self.unproven)
        nothing = UNDECIDED if cut else NO_MATCH
        return next((each for each in (EXACT, CANONICAL) if each in verdicts), nothing)

    @property
    def false_alarms(self) -> tuple[UnprovenMatch, ...]:
        """What was returned and does not check: a reason to look into the ledger or the node."""
        return tuple(match for match in self.unproven if not match.erased)


def judge_search(
    answer: dict[str, Json], content: Fingerprint, tenant: SealingKey, vkey: str
) -> SearchVerdict:
    """Check every match of an answer against the content's own fingerprint.

    Raises VerificationFailed when the checkpoint does not check, LedgerError when the answer is malformed. A
    match that does not check is set apart, never counted.
    """
    matches, note, total = answer.get("matches"), answer.get("checkpoint"), answer.get("total")
    if not isinstance(matches, list) or len(matches) > MAX_MATCHES or not isinstance(note, str):
        raise LedgerError("The ledger's answer is malformed", "", "both sides must run versions that fit")
    checkpoint = open_checkpoint(note, vkey)
    judged = [_judge(match, content, tenant, vkey) for match in matches]
    proven = tuple(each for each in judged if isinstance(each, ProvenMatch))
    unproven = tuple(each for each in judged if isinstance(each, UnprovenMatch))
    count = total if isinstance(total, int) and total > len(matches) else len(matches)
    return SearchVerdict(proven, unproven, count, checkpoint, note)


def open_output(receipt: str, sealed: bytes, tenant: SealingKey, vkey: str) -> tuple[CheckedEntry, Opening]:
    """The output that a receipt proves, and its opening; VerificationFailed says what does not fit."""
    checked = check_receipt(receipt, vkey)
    entry = checked.entry
    if entry.kind != "output":
        raise _unfit("the entry is not an output")
    opening = Opening.unseal(sealed, tenant)
    value = unb64(entry.body["commitment"], DIGEST_BYTES)
    if not commitment_opens(value, opening.salt, opening.fingerprint, opening.record):
        raise _unfit("the opening is not the one that the entry commits to")
    stated = {
        "node": entry.node,
        "minute": entry.minute,
        **{name: entry.body[name] for name in _STATED_TWICE},
    }
    if any(opening.record.get(name) != value for name, value in stated.items()):
        raise _unfit("the entry and its sealed record contradict each other")
    return checked, opening


def compare(output: Fingerprint, content: Fingerprint) -> str:
    """`exact` for the same bytes, `canonical` for the same text, else `no match`."""
    if output.raw == content.raw:
        return EXACT
    return CANONICAL if output.canonical == content.canonical else NO_MATCH


def _judge(match: Json, content: Fingerprint, tenant: SealingKey, vkey: str) -> ProvenMatch | UnprovenMatch:
    index = match.get("index") if isinstance(match, dict) else None
    if not isinstance(index, int) or isinstance(index, bool) or not isinstance(match.get("receipt"), str):
        return UnprovenMatch(None, "it is malformed")
    try:
        if match.get("opening") is None:
            check_receipt(match["receipt"], vkey)
            return UnprovenMatch(index, "its opening was erased", erased=True)
        sealed = unb64(match["opening"])
        checked, opening = open_output(match["receipt"], sealed, tenant, vkey)
        verdict = compare(opening.fingerprint, content)
        if checked.index != index or verdict == NO_MATCH:
            raise _unfit("it is another output than the ledger says")
    except FedaigcError as error:
        return UnprovenMatch(index, f"{error.what}: {error.why}" if error.why else error.what)
    return ProvenMatch(verdict, checked, opening.record, match["receipt"], sealed)


def _unfit(why: str) -> VerificationFailed:
    return VerificationFailed(
        "A match is not proven", why, "report it: the node or the ledger states what is false"
    )
