"""Signed notes and checkpoints as other logs write them (c2sp.org/signed-note, tlog-checkpoint).

A checkpoint says how many entries a log holds and the root over them:

    example.org/ledger
    3
    <root in base64>

    — example.org/ledger <base64 of key id and Ed25519 signature>

Signatures of keys we do not know are ignored, so that witnesses may add theirs; a bad signature of a key that
we do know refuses the whole note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from fedaigc.errors import VerificationFailed
from fedaigc.ledger_tree import HASH_BYTES, MAX_SIZE
from fedaigc.signing import PUBLIC_KEY_BYTES, PublicKey, SigningKey, b64, unb64

ED25519 = b"\x01"
KEY_ID_BYTES = 4
MAX_NOTE_BYTES = 1 << 17
MAX_SIGNATURES = 64
"""The specification asks for at least 16; post-quantum ones take 5 kB each."""

_DASH = "\u2014 "
_NAME = re.compile(r"[^\s+]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
# Lone surrogates too: they have no UTF-8 form.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\ud800-\udfff]")


@dataclass(frozen=True)
class NoteKey:
    """A named Ed25519 key that checks notes; its text form is a C2SP vkey, `name+id+key`."""

    name: str
    public: PublicKey

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or _CONTROL.search(self.name):
            raise _refused("A note key has no usable name", "a name is not empty and has no space and no +")

    @property
    def key_id(self) -> bytes:
        """The four bytes that name the key in a signature line."""
        return sha256(self.name.encode() + b"\n" + ED25519 + self.public.raw).digest()[:KEY_ID_BYTES]

    def vkey(self) -> str:
        """The key as one word, to be published."""
        return f"{self.name}+{self.key_id.hex()}+{b64(ED25519 + self.public.raw)}"

    @classmethod
    def from_vkey(cls, text: str) -> NoteKey:
        """Read a vkey; raises VerificationFailed when it is damaged or not of an Ed25519 key."""
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise _refused("This is not a log key", "a vkey has the form name+id+key")
        raw = unb64(parts[2])
        if raw[:1] != ED25519 or len(raw) != 1 + PUBLIC_KEY_BYTES:
            raise _refused("This is not an Ed25519 log key", "other kinds of signature are not supported")
        key = cls(parts[0], PublicKey(raw[1:]))
        if key.key_id.hex() != parts[1]:
            raise _refused("A log key is damaged", "its id does not belong to its name and key")
        return key


@dataclass(frozen=True)
class LogSigner:
    """A named key that signs checkpoints; the name is also the log's origin."""

    name: str
    key: SigningKey

    @property
    def note_key(self) -> NoteKey:
        """The key that checks what this one signs."""
        return NoteKey(self.name, self.key.public)

    def vkey(self) -> str:
        """The public key as one word, to be published."""
        return self.note_key.vkey()

    def sign_note(self, text: str) -> str:
        """The note of `text`, which must end with a newline; raises VerificationFailed otherwise."""
        if not text.endswith("\n") or _CONTROL.search(text):
            raise _refused("This text cannot be a note", "it has control characters or no final newline")
        signature = b64(self.note_key.key_id + self.key.sign_raw(text.encode()))
        return f"{text}\n{_DASH}{self.name} {signature}\n"

    def sign_checkpoint(self, size: int, root: bytes) -> str:
        """The signed checkpoint of this log at `size` entries."""
        return self.sign_note(Checkpoint(self.name, size, root).text())


def open_note(note: str, keys: Sequence[NoteKey]) -> str:
    """The text of a note that at least one of `keys` signed; raises VerificationFailed otherwise."""
    if len(note) > MAX_NOTE_BYTES or _CONTROL.search(note):
        raise _refused("This is not a signed note", "it is too large or has control characters")
    head, blank, tail = note.rpartition("\n\n")
    text, lines = head + "\n", tail.removesuffix("\n").split("\n")
    if not blank or not tail.endswith("\n") or len(lines) > MAX_SIGNATURES:
        raise _refused("This is not a signed note", "it must be a text, an empty line and signatures")
    known = {(key.name, key.key_id): key for key in keys}
    signed = False
    for line in lines:
        name, signature = _signature_of(line)
        key = known.get((name, signature[:KEY_ID_BYTES]))
        if key is not None:
            key.public.verify_raw(text.encode(), signature[KEY_ID_BYTES:])
            signed = True
    if not signed:
        raise _refused("A note is not signed by a key we trust", "only unknown keys signed it")
    return text


@dataclass(frozen=True)
class Checkpoint:
    """What a log states about itself: its origin, how many entries it has, and their root (32 bytes)."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """The three lines that are signed."""
        return f"{self.origin}\n{self.size}\n{b64(self.root)}\n"

    @classmethod
    def from_text(cls, text: str) -> Checkpoint:
        """Read signed lines; extension lines are allowed and not looked at. Raises VerificationFailed."""
        lines = text.split("\n")
        if len(lines) < 4 or lines[-1] or not all(lines[:-1]) or not _NUMBER.fullmatch(lines[1]):
            raise _refused("A checkpoint is malformed", "its lines must be origin, size and root")
        size, root = int(lines[1]), unb64(lines[2], HASH_BYTES)
        if size > MAX_SIZE or b64(root) != lines[2]:
            raise _refused("A checkpoint is malformed", "its size or root has a second spelling")
        return cls(lines[0], size, root)


def open_checkpoint(note: str, vkey: str) -> Checkpoint:
    """The checkpoint in a note, once the log's key signed it for its own origin; else VerificationFailed."""
    key = NoteKey.from_vkey(vkey)
    checkpoint = Checkpoint.from_text(open_note(note, [key]))
    if checkpoint.origin != key.name:
        raise _refused("A checkpoint is of another log", "its origin is not the name of its key")
    return checkpoint


def _signature_of(line: str) -> tuple[str, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    signature = unb64(encoded)
    if not line.startswith(_DASH) or not _NAME.fullmatch(name) or len(signature) <= KEY_ID_BYTES:
        raise _refused("A note has a malformed signature line", "")
    return name, signature


def _refused(what: str, why: str) -> VerificationFailed:
    return VerificationFailed(what, why, "copy the whole text again; if it still fails, treat it as forged")
