"""A device without a model: real keys, real enrolment body, real signed updates of a small shape."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from starlette.requests import Request
from starlette.responses import Response

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot
from fedaigc.canonical import Json, canonical_bytes
from fedaigc.identifiers import NodeId
from fedaigc.join_token import JoinToken
from fedaigc.privacy_account import DELTA, least_epsilon
from fedaigc.request_signature import signed_headers
from fedaigc.round_plan import RoundPlan
from fedaigc.sealing import SealingKey
from fedaigc.signing import PublicKey, SigningKey, b64
from fedaigc.update import NodeUpdate
from fedaigc_server.exact_routes import ExactRoutes

BASE_MODEL = "ab" * 32
SHAPE = AdapterShape(4, 8.0, (AdapterSlot(2, "q_proj", 64, 64), AdapterSlot(2, "v_proj", 64, 32)))
HEAD_LAYER, HEAD_DIM = 2, 64
NOBODY, NO_KEY = NodeId(""), PublicKey(b"")


@dataclass
class FakeDevice:
    """One device's keys and what it would answer; `node` is set by enrolment."""

    name: str = "device"
    signing: SigningKey = field(default_factory=SigningKey.generate)
    sealing: SealingKey = field(default_factory=SealingKey.generate)
    flower: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP384R1())
    )
    node: NodeId = NOBODY
    release_public: PublicKey = NO_KEY
    policy: int = 0
    rounds: dict[str, bytes] = field(default_factory=dict)
    """Round -> the update that was made for it: a round is trained once."""
    asked: int = 0

    def enrol_body(self, token: JoinToken) -> dict[str, Json]:
        """The body of `POST /v1/enrol`, with its proof."""
        public = self.flower.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        body: dict[str, Json] = {
            "token_id": token.token_id,
            "secret": token.secret,
            "name": self.name,
            "region": token.region,
            "signing_key": self.signing.public.text(),
            "flower_key": public.decode("ascii"),
            "sealing_key": self.sealing.public.text(),
            "capability": {"cores": 2},
        }
        return {**body, "proof": b64(self.signing.sign("enrol", canonical_bytes(body)))}

    def headers(self, method: str, path: str, body: bytes = b"", now: int | None = None) -> dict[str, str]:
        """The signature of one request."""
        moment = int(time.time()) if now is None else now
        return signed_headers(self.signing, self.node, method, path, body, moment)

    def accept(self, answer: dict[str, Any]) -> None:
        """Remember what enrolment answered."""
        self.node = NodeId(answer["node"])
        self.release_public = PublicKey.from_text(answer["release_key"])

    def status(self) -> bytes:
        """The answer to `query.status`."""
        record = {
            "node": self.node,
            "base_model": BASE_MODEL,
            "shape": SHAPE.to_json(),
            "head_layer": HEAD_LAYER,
            "head_dim": HEAD_DIM,
            "pairs_new": 32,
            "epsilon_spent": "0.0",
            "epsilon_left": "1.5",
            "policy": self.policy,
        }
        return canonical_bytes(record)

    def update(self, plan_bytes: bytes) -> bytes:
        """A signed update for a signed plan; the same bytes when the round is asked for again."""
        plan = RoundPlan.open(plan_bytes, self.release_public)
        if plan.round not in self.rounds:
            self.rounds[plan.round] = self.update_for(plan).signed(self.signing)
        return self.rounds[plan.round]

    def update_for(self, plan: RoundPlan, **changes: Any) -> NodeUpdate:
        """An honest update, or one with `changes`."""
        noise = np.random.default_rng(1)
        delta = Adapter(
            plan.shape,
            plan.base_model,
            {
                slot.name: noise.normal(0, 1e-3, (slot.out_features, plan.shape.rank)).astype(np.float32)
                for slot in plan.shape.slots
            },
        )
        spent = least_epsilon(plan.mechanisms) * (1 + len(self.rounds)) + 1e-3
        values: dict[str, Any] = {
            "round": plan.round,
            "node": self.node,
            "parent": plan.parent,
            "base_model": plan.base_model,
            "adapter_delta": delta,
            "head_delta": noise.normal(0, 1e-3, plan.head_dim).astype(np.float32),
            "mechanisms": plan.mechanisms,
            "epsilon_spent": min(spent, 1.9),
            "delta": DELTA,
            "fingerprint_root": bytes(range(32)),
            "moved": delta.norm,
        }
        return NodeUpdate(**{**values, **changes})

    def write_flower_key(self, folder: Path) -> Path:
        """The SuperNode's private key as the file that Flower wants."""
        path = folder / f"{self.name}.flower.key"
        path.write_bytes(self.flower.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        path.chmod(0o600)
        return path

    @contextmanager
    def daemon(self, socket: Path, seconds: float = 0.0) -> Iterator[None]:
        """Answer the ClientApp on a unix socket, taking `seconds` for a round."""

        async def status(request: Request) -> Response:
            return Response(self.status())

        async def train(request: Request) -> Response:
            self.asked += 1
            plan = await request.body()
            known = RoundPlan.open(plan, self.release_public).round in self.rounds
            await asyncio.sleep(0 if known else seconds)
            return Response(self.update(plan))

        app = ExactRoutes({("POST", "/status"): status, ("POST", "/round"): train})
        server = uvicorn.Server(uvicorn.Config(app, uds=str(socket), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(10)


def enrol_over_tls(device: FakeDevice, token_text: str, ca_file: Path) -> httpx.Response:
    """Send the enrolment of `device` to the server that the token names."""
    token = JoinToken.decode(token_text)
    trust = ssl.create_default_context(cafile=str(ca_file))
    url = f"https://{token.address}/v1/enrol"
    answer = httpx.post(url, json=device.enrol_body(token), verify=trust, timeout=60)
    if answer.status_code == 200:
        device.accept(json.loads(answer.content))
    return answer
