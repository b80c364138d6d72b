"""The only place where the device's parts are built and joined; started in order, stopped in the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import fedaigc
from fedaigc.canonical import Json
from fedaigc.child_process import end_leftovers
from fedaigc.errors import FedaigcError, IdentityError, Unavailable
from fedaigc.files import folder_lock, private_folder, write_private
from fedaigc.identifiers import PolicyVersion
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.banner import show_banner
from fedaigc_edge.batching_reload import batching_reload
from fedaigc_edge.commands.daemon_call import API_FILE, SOCKET_FILE
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.engine.batching_window import BatchingWindow
from fedaigc_edge.engine.generator import Generator
from fedaigc_edge.enrolment import CA_FILE, Enrolment
from fedaigc_edge.evidence.delivery import Delivery
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.federation.heartbeat import Contact, Heartbeat
from fedaigc_edge.federation.policy_poll import PolicyPoll
from fedaigc_edge.federation.server_connection import ServerConnection
from fedaigc_edge.federation.supernode import SuperNode
from fedaigc_edge.federation.tag_keys import TagKeys
from fedaigc_edge.identity import Identity
from fedaigc_edge.learn.account_store import AccountStore
from fedaigc_edge.learn.feedback_store import FeedbackStore
from fedaigc_edge.learn.local_round import LocalRounds, PolicyInUse
from fedaigc_edge.listening import Listening, loopback_socket, private_unix_socket
from fedaigc_edge.local_socket import DaemonActs, socket_app
from fedaigc_edge.log_lines import begin_logging
from fedaigc_edge.loops import Loops
from fedaigc_edge.model.store import ModelFolder, open_model
from fedaigc_edge.owed_delivery import deliver_former
from fedaigc_edge.policy.hot_swap import ActivePolicy
from fedaigc_edge.policy.receive import PolicyReceiver
from fedaigc_edge.serve.http_api import HttpApi
from fedaigc_edge.serve.pipeline import Pipeline
from fedaigc_edge.serve.policy_gate import PolicyGate
from fedaigc_edge.serve.readiness import Readiness
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.serve.serving_metrics import ServingMetrics
from fedaigc_edge.settings import EdgeSettings, ServeSettings
from fedaigc_edge.standing import Standing, StandingRecord, State
from fedaigc_edge.status import EVIDENCE_FILE, LEARN_FILE, identity_part, undelivered_former
from fedaigc_edge.stopping import StopRequest

SOCKET_DRAIN_S = 1.0
"""A round that still trains at a stop is cut: it is asked for again after the next start."""

OnReady = Callable[[Mapping[str, Json]], None]
"""Hears the status once, when the model is loaded."""

log = logging.getLogger("fedaigc.edge")


def run_device(settings: EdgeSettings, on_ready: OnReady = show_banner, config: Path | None = None) -> None:
    """Serve in the foreground until told to stop; returns after an orderly stop.

    The `[batching]` table of `config` is read again when that file changes.
    Raises IdentityError (not joined), FolderInUse, SettingsError (port taken, gate unusable), ModelError.
    """
    data = private_folder(settings.data)
    with folder_lock(data):
        ended = end_leftovers(data)
        enrolment = Enrolment.load(data)
        _require_not_left(data, StandingRecord(data).current)
        begin_logging(data)
        log.info("starting node=%s version=%s leftovers_ended=%d", enrolment.node, fedaigc.__version__, ended)
        asyncio.run(_live(settings, enrolment, on_ready, config))
    log.info("stopped node=%s", enrolment.node)


async def _live(settings: EdgeSettings, enrolment: Enrolment, on_ready: OnReady, config: Path | None) -> None:
    # The signals first: opening the model and the databases takes seconds, and is not to be cut in between.
    stop = StopRequest()
    stop.listen()
    await Device(settings, enrolment, on_ready, stop, config).run()


def _require_not_left(data: Path, standing: Standing) -> None:
    if standing.state is State.LEFT:
        raise IdentityError(
            f"The device in {data} has left its server",
            standing.reason,
            "run the join command again, with the same token to return or a new one to start anew",
        )


def _load_generator(model: ModelFolder, serve: ServeSettings, window: BatchingWindow) -> Generator:
    settings = EngineSettings(
        slots=serve.slots,
        waiting=serve.waiting,
        kv_bytes=serve.kv_mib << 20,
        adapter_bytes=serve.adapters_mib << 20,
        threads=serve.threads,
        drafts=serve.drafts,
    )
    return BatchingGenerator(model, settings, window)


def _connection(
    data: Path, enrolment: Enrolment, identity: Identity, standing: StandingRecord
) -> ServerConnection:
    return ServerConnection(
        enrolment.address,
        data / CA_FILE,
        enrolment.node,
        identity.signing,
        on_refused=standing.revoked,
    )


def _supernode(data: Path, enrolment: Enrolment, identity: Identity) -> SuperNode:
    return SuperNode(data, enrolment.address, data / CA_FILE, identity.flower.path, data / SOCKET_FILE)


class Device:
    """One device: its parts, and what happens when the server or the owner says something.

    Raises what opening its files raises.
    """

    def __init__(
        self,
        settings: EdgeSettings,
        enrolment: Enrolment,
        on_ready: OnReady = show_banner,
        stop: StopRequest | None = None,
        config: Path | None = None,
    ) -> None:
        data = settings.data
        self._on_ready = on_ready
        self._settings = settings
        self._enrolment = enrolment
        identity = Identity.load(data / "keys")
        self._model = open_model(settings.models, settings.model)
        self._standing = StandingRecord(data)
        self._metrics = ServingMetrics()
        self._window = BatchingWindow(settings.batching)
        self._config = config
        self._gate = PolicyGate(settings.serve.gate)
        self._server = _connection(data, enrolment, identity, self._standing)
        self._tag_keys = TagKeys(data, identity.sealing)
        self._outbox = Outbox(data / EVIDENCE_FILE, enrolment.node, enrolment.tenant_key)
        self._feedback = FeedbackStore(data / LEARN_FILE)
        self._account = AccountStore(data / LEARN_FILE)
        self._rounds = LocalRounds(
            data,
            self._model,
            enrolment.node,
            identity.signing,
            enrolment.release_key,
            self._feedback,
            self._account,
            self._policy_in_use,
        )
        self._delivery = Delivery(
            self._outbox,
            self._server,
            self._tag_keys,
            enrolment.log_vkey,
            settings.federation.delivery_s,
            on_refused=lambda: self._obey(self._standing.current),
        )
        self._heartbeat = Heartbeat(
            self._server, self._report, self._heard_from_server, settings.federation.heartbeat_s
        )
        self._supernode = _supernode(data, enrolment, identity)
        self._readiness = Readiness()
        self._pipeline: Pipeline | None = None
        self._receiver: PolicyReceiver | None = None
        self._poll: PolicyPoll | None = None
        self._generator: Generator | None = None
        self._loops = Loops()
        self._api: Listening | None = None
        self._stop = stop or StopRequest()
        self._stop.hurry_with(self._hurry)

    async def run(self) -> None:
        """Start every part, serve until asked to stop, stop them in the other order.

        Raises ModelError when the model cannot be loaded.
        """
        self._stop.listen()
        async with contextlib.AsyncExitStack() as ending:
            for store in (self._outbox, self._feedback, self._account):
                ending.callback(store.close)
            ending.push_async_callback(self._server.close)
            ending.push_async_callback(self._loops.end)
            await self._open_sockets(ending)
            ending.push_async_callback(self._supernode.stop)
            self._standing.on_change(self._standing_changed)
            self._obey(self._standing.current)
            self._loops.begin("delivery", self._delivery.run)
            self._loops.begin("former", partial(deliver_former, self._settings.data))
            self._loops.begin("heartbeat", self._heartbeat.run)
            self._loops.begin("tag_keys", partial(self._tag_keys.keep_fresh, self._server))
            self._loops.begin("gate", self._gate.watch)
            if self._config is not None:
                self._loops.begin("batching", batching_reload(self._config, self._window).watch)
            ending.push_async_callback(self._drain)
            if await self._stop.unless(self._load_model()):
                self._on_ready(await self._status())
                await self._stop.wait()

    async def _open_sockets(self, ending: contextlib.AsyncExitStack) -> None:
        data = self._settings.data
        private_folder(data / "run")
        acts = DaemonActs(self._round_status, self._run_round, self._status, self._leave)
        self._api = Listening(
            HttpApi(self._readiness, self._outbox, self._feedback.add, self._metrics).app,
            loopback_socket(self._settings.serve.port),
            self._settings.serve.drain_s,
        )
        private = Listening(socket_app(acts), private_unix_socket(data / SOCKET_FILE), SOCKET_DRAIN_S)
        await private.start()
        ending.push_async_callback(private.stop)
        await self._api.start()
        record = {"url": self._url, "node": self._enrolment.node}
        write_private(data / API_FILE, json.dumps(record).encode("ascii"))
        ending.callback((data / API_FILE).unlink, missing_ok=True)
        log.info("listening url=%s", self._url)

    async def _load_model(self) -> None:
        started = time.monotonic()
        serve, budget = self._settings.serve, self._settings.budget
        generator = await asyncio.to_thread(_load_generator, self._model, serve, self._window)
        self._generator = generator
        active = ActivePolicy(generator, earlier=serve.earlier_versions)
        receiver = PolicyReceiver(
            self._settings.data / "policy", self._enrolment.release_key, self._model, active
        )
        version = await asyncio.to_thread(receiver.restore)
        self._receiver = receiver
        self._pipeline = Pipeline(
            ServedModel(self._settings.model),
            self._gate,
            TokenBudget(budget.tokens, budget.window_s, time.monotonic),
            generator,
            active,
            self._outbox,
            self._feedback.remember_answer,
            self._metrics,
        )
        self._poll = PolicyPoll(
            receiver,
            self._server,
            self._settings.federation.policy_poll_s or self._enrolment.poll_s,
            lambda: self._standing.current.refusal() is None,
        )
        self._obey(self._standing.current)
        self._loops.begin("policy", self._poll.run)
        log.info("model_loaded seconds=%.1f policy=%d", time.monotonic() - started, version)

    async def _drain(self) -> None:
        self._readiness.close(Unavailable("This device is stopping", "", "try again when it is back"))
        if self._api is not None:
            await self._api.stop()
        if self._pipeline is not None:
            # What a cut stream handed over is sealed before the evidence is closed.
            await self._pipeline.end()
        if self._generator is not None:
            await asyncio.to_thread(self._generator.close)

    def _hurry(self) -> None:
        if self._api is not None:
            self._api.hurry()

    def _standing_changed(self, standing: Standing) -> None:
        log.warning("standing=%s reason=%r next=%r", standing.state, standing.reason, standing.do_next)
        self._obey(standing)

    def _obey(self, standing: Standing) -> None:
        """Serve and take part only while server, owner and ledger want it; data stays in any case."""
        refusal = standing.refusal() or self._delivery.refused
        if refusal is not None:
            self._readiness.close(refusal)
            self._loops.begin("supernode_stop", self._supernode.stop)
            return
        self._supernode.start()
        if self._pipeline is not None:
            self._readiness.open(self._pipeline)

    def _heard_from_server(self, contact: Contact) -> None:
        self._standing.confirmed()
        if self._poll is not None and contact.policy > self._policy:
            self._poll.wake()

    def _leave(self) -> None:
        self._standing.left()
        self._stop.ask("leave")

    @property
    def _policy(self) -> int:
        return int(self._pipeline.policies.current.version) if self._pipeline is not None else 0

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._api.port}" if self._api is not None else ""

    def _report(self) -> dict[str, Json]:
        return {
            "policy": self._policy,
            "version": fedaigc.__version__,
            "outbox": self._outbox.counts().pending,
            "model": self._model.base_model,
        }

    async def _run_round(self, plan: bytes) -> bytes:
        self._readiness.pipeline()
        log.info("round_asked")
        try:
            update = await self._rounds.run(plan)
        except FedaigcError as error:
            log.warning("round_declined code=%s what=%r why=%r", error.code, error.what, error.why)
            raise
        log.info("round_answered bytes=%d epsilon_spent=%.4f", len(update), self._account.epsilon())
        return update

    async def _round_status(self) -> dict[str, Json]:
        self._readiness.pipeline()
        if self._poll is not None:
            # A round builds on the newest policy: a device that has not polled since would be left out.
            await self._poll.ask()
        return self._rounds.status()

    def _policy_in_use(self) -> PolicyInUse:
        accepted = self._receiver.accepted if self._receiver is not None else None
        if accepted is None:
            return PolicyInUse(PolicyVersion(0), None, None)
        return PolicyInUse(accepted.manifest.version, accepted.adapter, accepted.head)

    async def _status(self) -> dict[str, Json]:
        contact = await self._heartbeat.look()
        delivery, learning = await self._delivery.status(), self._rounds.status()
        refused = delivery.alarm or delivery.error
        swap = self._poll.last_change if self._poll is not None else None
        problem = self._receiver.problem if self._receiver is not None else None
        return identity_part(self._enrolment, self._standing.current) | {
            "running": True,
            "reachable": contact.reachable,
            "problem": contact.problem,
            "api": self._url,
            "ready": not self._not_ready,
            "not_ready": self._not_ready,
            "model": self._model.name,
            "base_model": self._model.base_model,
            "policy": self._policy,
            "policy_problem": str(problem) if problem is not None else "",
            "hot_swap_ms": swap.milliseconds if swap is not None else None,
            "gate_version": self._gate.rules.version if self._settings.serve.gate is not None else None,
            "gate_problem": str(self._gate.problem) if self._gate.problem is not None else "",
            "fingerprinted": delivery.sealed,
            "outbox": delivery.pending,
            "outbox_former": await asyncio.to_thread(undelivered_former, self._settings.data),
            "receipts": delivery.sealed - delivery.pending,
            "delivery_stopped": delivery.alarm is not None,
            "delivery_problem": str(refused) if refused is not None else "",
            "pairs_new": self._feedback.count(unused=True),
            "pairs": self._feedback.count(),
            "round": self._rounds.progress(),
            "epsilon_spent": learning["epsilon_spent"],
            "epsilon_left": learning["epsilon_left"],
            "supernode": asdict(self._supernode.state().beside(contact.reachable or not contact.problem)),
        }

    @property
    def _not_ready(self) -> str:
        try:
            self._readiness.pipeline()
        except FedaigcError as error:
            return error.what
        return ""
