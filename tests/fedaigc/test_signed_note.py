from __future__ import annotations

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedaigc.errors import VerificationFailed
from fedaigc.ledger_tree import EMPTY_ROOT
from fedaigc.signed_note import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    Checkpoint,
    LogSigner,
    NoteKey,
    open_checkpoint,
    open_note,
)
from fedaigc.signing import PublicKey, SigningKey, b64, unb64

# Public example keys: C2SP signed-note, the test log of Tessera, and the documentation of Go's sumdb/note.
C2SP_VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
TESSERA_VKEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
GO_VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotp"
    "RZb6KE6RyyBwJnAM=\n"
)


@pytest.fixture
def signer() -> LogSigner:
    return LogSigner("ledger.example/one", SigningKey.generate())


def signature_line(name: str, payload: bytes) -> str:
    return f"\u2014 {name} {b64(payload)}\n"


@pytest.mark.parametrize("vkey", [C2SP_VKEY, TESSERA_VKEY, GO_VKEY])
def test_public_example_keys_have_the_key_id_that_they_print(vkey: str) -> None:
    key = NoteKey.from_vkey(vkey)
    name, printed, encoded = vkey.split("+", 2)
    assert key.name == name
    assert sha256(name.encode() + b"\n" + unb64(encoded)).digest()[:4].hex() == printed == key.key_id.hex()
    assert key.vkey() == vkey


def test_gos_published_note_opens_with_its_published_key() -> None:
    text = open_note(GO_NOTE, [NoteKey.from_vkey(GO_VKEY)])
    assert text.endswith("your problem is.\n")
    with pytest.raises(VerificationFailed):
        open_note(GO_NOTE.replace("answer", "Answer"), [NoteKey.from_vkey(GO_VKEY)])


def test_a_note_has_the_exact_form_of_the_specification(signer: LogSigner) -> None:
    note = signer.sign_note("one\n\ntwo\n")
    text, _, line = note.rpartition("\n\n")
    assert text + "\n" == "one\n\ntwo\n"
    dash, name, encoded = line.removesuffix("\n").split(" ")
    assert (dash, name) == ("\u2014", signer.name)
    signature = unb64(encoded, 4 + 64)
    # Checked with the signature library itself, not with our own opener.
    public = Ed25519PublicKey.from_public_bytes(signer.key.public.raw)
    public.verify(signature[4:], b"one\n\ntwo\n")
    assert open_note(note, [signer.note_key]) == "one\n\ntwo\n"


def test_signatures_of_unknown_keys_are_ignored_even_under_a_known_name_or_id(signer: LogSigner) -> None:
    note = signer.sign_note("text\n")
    for name, key_id in ((signer.name, b"\0\0\0\0"), ("witness.example", signer.note_key.key_id)):
        for count in (1, 16):
            extra = signature_line(name, key_id + bytes(64)) * count
            assert open_note(note + extra, [signer.note_key]) == "text\n"
    post_quantum = signature_line("pq.example", bytes(4 + 4_627))
    assert open_note(note + post_quantum * 16, [signer.note_key]) == "text\n"


def test_a_known_key_with_a_bad_signature_refuses_the_whole_note(signer: LogSigner) -> None:
    other = LogSigner("other.example", SigningKey.generate())
    note = signer.sign_note("text\n") + signature_line(other.name, other.note_key.key_id + bytes(64))
    assert open_note(note, [signer.note_key]) == "text\n"
    with pytest.raises(VerificationFailed):
        open_note(note, [signer.note_key, other.note_key])


def test_a_note_that_only_unknown_keys_signed_is_refused(signer: LogSigner) -> None:
    with pytest.raises(VerificationFailed, match="trust"):
        open_note(signer.sign_note("text\n"), [NoteKey.from_vkey(C2SP_VKEY)])
    with pytest.raises(VerificationFailed):
        open_note(signer.sign_note("text\n"), [])


def test_malformed_notes_are_refused(signer: LogSigner) -> None:
    note = signer.sign_note("text\n")
    line = note.rpartition("\n\n")[2]
    bad = [
        "",
        "text\n",
        note[:-1],
        note.replace("\n\n", "\n"),
        note.replace("text", "te\x07xt"),
        note.replace("text", "te\rxt"),
        note.replace("text", "te\ud800xt"),
        note.replace("\u2014", "-"),
        note.replace("\u2014 ", "\u2014"),
        note + "\n",
        note + "\u2014 witness.example not-base64\n",
        note + signature_line("wit+ness", bytes(68)),
        note + signature_line("witness", b"abcd"),
        note + "\u2014 \n",
        note + line * MAX_SIGNATURES,
        note + "x" * MAX_NOTE_BYTES,
    ]
    for text in bad:
        with pytest.raises(VerificationFailed):
            open_note(text, [signer.note_key])


def test_text_that_cannot_be_a_note_is_not_signed(signer: LogSigner) -> None:
    for text in ("no newline", "", "bell\x07\n", "\ud800\n"):
        with pytest.raises(VerificationFailed):
            signer.sign_note(text)


@pytest.mark.parametrize("name", ["", "two words", "a+b", "tab\t", "non\u00a0breaking", "bell\x07", "\ud800"])
def test_a_key_name_has_no_space_and_no_plus(name: str) -> None:
    with pytest.raises(VerificationFailed):
        NoteKey(name, PublicKey(bytes(32)))


@pytest.mark.parametrize(
    "vkey",
    [
        "",
        "name",
        "name+id",
        C2SP_VKEY.replace("530d903a", "530d903b"),
        C2SP_VKEY.replace("example.com", "example.org"),
        C2SP_VKEY[:-4],
        "name+00000000+" + b64(b"\x04" + bytes(32)),
        "name+00000000+" + b64(b"\x01" + bytes(31)),
        "name+00000000+" + b64(b""),
        "name+00000000+?",
    ],
)
def test_a_damaged_or_foreign_log_key_is_refused(vkey: str) -> None:
    with pytest.raises(VerificationFailed):
        NoteKey.from_vkey(vkey)


def test_a_checkpoint_comes_back_as_it_was_signed(signer: LogSigner) -> None:
    note = signer.sign_checkpoint(3, EMPTY_ROOT)
    assert note.startswith(f"{signer.name}\n3\n{b64(EMPTY_ROOT)}\n\n")
    assert open_checkpoint(note, signer.vkey()) == Checkpoint(signer.name, 3, EMPTY_ROOT)
    assert open_checkpoint(note, signer.vkey() + "\n").size == 3


def test_extension_lines_of_a_checkpoint_are_allowed_and_ignored(signer: LogSigner) -> None:
    note = signer.sign_note(Checkpoint(signer.name, 0, EMPTY_ROOT).text() + "more\n")
    assert open_checkpoint(note, signer.vkey()).size == 0


def test_a_checkpoint_for_another_origin_is_refused_though_the_key_signed_it(signer: LogSigner) -> None:
    note = signer.sign_note(Checkpoint("ledger.example/two", 3, EMPTY_ROOT).text())
    with pytest.raises(VerificationFailed, match="another log"):
        open_checkpoint(note, signer.vkey())


def test_malformed_checkpoints_are_refused_though_signed(signer: LogSigner) -> None:
    root = b64(EMPTY_ROOT)
    for size, root_text in (
        ("03", root),
        ("-1", root),
        ("+1", root),
        ("", root),
        ("1e3", root),
        ("\u0663", root),
        (str(2**63), root),
        ("3", root[:-4]),
        ("3", root[:-2] + "V="),
        ("3", ""),
        ("3", root + "\n"),
    ):
        note = signer.sign_note(f"{signer.name}\n{size}\n{root_text}\n")
        with pytest.raises(VerificationFailed):
            open_checkpoint(note, signer.vkey())
    for text in ("\n", f"{signer.name}\n3\n", f"\n3\n{root}\n"):
        with pytest.raises(VerificationFailed):
            open_checkpoint(signer.sign_note(text), signer.vkey())
