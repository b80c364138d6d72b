"""Ask the ledger's admin API: bounded answers, no redirects, errors of our own tree."""

from __future__ import annotations

import ssl
from types import TracebackType

import httpx

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import FedaigcError, LedgerError, SettingsError, Unavailable, VerificationFailed
from fedaigc.ledger_tree import HASH_BYTES
from fedaigc.receipt import MAX_PROOF_HASHES
from fedaigc.signing import unb64
from fedaigc_server.officer.folder import OfficerFolder

MAX_ANSWER_BYTES = 32 << 20
MAX_ERROR_CHARS = 500
TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class AdminConnection:
    """The officer's token at the admin API; use as a context manager.

    Every method raises Unavailable when nobody answers, NotAuthorised for a wrong token, LedgerError for an
    answer that is not one, and whatever error of our tree the server states.
    """

    def __init__(self, folder: OfficerFolder, transport: httpx.BaseTransport | None = None) -> None:
        self._url = folder.admin_url
        self._http = httpx.Client(
            base_url=folder.admin_url,
            headers={"authorization": f"Bearer {folder.token()}", "accept-encoding": "identity"},
            timeout=TIMEOUT,
            follow_redirects=False,
            # A proxy named in the environment would see the token.
            trust_env=False,
            verify=_trust(folder),
            transport=transport,
        )

    def __enter__(self) -> AdminConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def search(self, case: str, tags: list[bytes]) -> dict[str, Json]:
        """The answer to a search, not yet verified; the server records it under `case`."""
        return self._ask("POST", "/v1/officer/search", {"case": case, "tags": [tag.hex() for tag in tags]})

    def entry(self, index: int) -> dict[str, Json]:
        """One entry and its receipt, not yet verified."""
        return self._ask("GET", f"/v1/officer/entries/{index}")

    def checkpoint(self) -> str:
        """The present checkpoint's note, not yet verified."""
        return str(self._ask("GET", "/v1/officer/checkpoint").get("checkpoint", ""))

    def consistency(self, first: int, second: int) -> list[bytes]:
        """The hashes that link two sizes, not yet verified."""
        proof = self._ask("GET", f"/v1/officer/consistency?first={first}&second={second}").get("proof")
        if not isinstance(proof, list) or len(proof) > MAX_PROOF_HASHES:
            raise _no_answer("its proof is not a short list")
        return [unb64(step, HASH_BYTES) for step in proof]

    def _ask(self, method: str, path: str, body: Json = None) -> dict[str, Json]:
        try:
            with self._http.stream(method, path, json=body) as response:
                data = _bounded(response)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Unavailable(
                f"The ledger at {self._url} cannot be reached",
                _one_line(f"{type(error).__name__} {error}"),
                "start the server, or correct admin_url in officer.json",
            ) from error
        if response.is_redirect:
            raise _no_answer("it sent a redirect, and the token is not sent elsewhere")
        try:
            answer = parse_record(data, MAX_ANSWER_BYTES)
        except VerificationFailed:
            raise _no_answer(f"status {response.status_code} without a JSON object") from None
        if response.status_code != httpx.codes.OK:
            raise _stated_error(answer, response.status_code)
        return answer


def _trust(folder: OfficerFolder) -> ssl.SSLContext | bool:
    if not folder.admin_url.startswith("https://") or folder.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(folder.ca_file))
    except OSError as error:
        raise SettingsError(
            f"Cannot use {folder.ca_file} as a CA", error.strerror or type(error).__name__, "correct ca_file"
        ) from error


def _bounded(response: httpx.Response) -> bytes:
    # We ask for no compression, and a few bytes of it could unpack to any size.
    if "content-encoding" in response.headers:
        raise _no_answer("it is compressed")
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise _no_answer(f"it has more than {MAX_ANSWER_BYTES} bytes")
    return bytes(data)


def _stated_error(answer: dict[str, Json], status: int) -> FedaigcError:
    stated = answer.get("error")
    if not isinstance(stated, dict):
        return _no_answer(f"status {status}")
    # The root of the tree leaves the program with 1, which only ever means "no match" here.
    kind = _kinds(FedaigcError).get(str(stated.get("code")), LedgerError)
    kind = LedgerError if kind is FedaigcError else kind
    what, why, do_next = (_one_line(stated.get(name)) for name in ("what", "why", "do_next"))
    return kind(what or f"The server answered with status {status}", why, do_next)


def _kinds(root: type[FedaigcError]) -> dict[str, type[FedaigcError]]:
    kinds = {root.code: root}
    for kind in root.__subclasses__():
        kinds |= _kinds(kind)
    return kinds


def _one_line(value: Json) -> str:
    # What a server says is shown on a terminal, so it may not steer one.
    text = value if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_ERROR_CHARS])


def _no_answer(why: str) -> LedgerError:
    return LedgerError(
        "The ledger gave no usable answer",
        why,
        "check that admin_url in officer.json is the ledger's admin API",
    )
