"""The demo's story: what each person does, with the product's own commands and a stock OpenAI client."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from openai import OpenAI
from rich.console import Console

from fedaigc.adapter import Adapter
from fedaigc.ledger_check import check_receipt
from tests.daemons import Daemon, StoryFailed, command, wait_for
from tests.demo.plaintext_search import leaked_bytes
from tests.demo.round_progress import watch_round
from tests.fleet import MODEL, Edge, Server, stop_all

FEEDBACK = Path(__file__).with_name("feedback.jsonl")
MAX_TOKENS = 40
AVERAGING_S = 120
"""How long after its deadline a round may still average and release."""

AFTERWARDS = 4
"""Questions each device answers again under the new policy."""

NEVER_GENERATED = "This sentence was written by hand for the demo and no device has ever produced it."


@dataclass
class Story:
    """One run of the demo; `results` fills up to the closing JSON line."""

    work: Path
    models: Path
    console: Console
    results: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, tuple[Edge, str]] = field(default_factory=dict)
    """Request id -> the device that answered and its text."""

    def __post_init__(self) -> None:
        self.server = Server(self.work)
        self.edges = [Edge(f"edge-{number}", self.work, self.models) for number in (1, 2)]
        self.pairs = [json.loads(line) for line in FEEDBACK.read_text(encoding="utf-8").splitlines()]

    def tell(self) -> dict[str, Any]:
        """Play the whole story; returns the closing record. Raises StoryFailed."""
        started = time.monotonic()
        try:
            self.operator_starts_the_server()
            self.owners_join()
            self.people_ask()
            self.people_judge()
            self.receipts_come_back()
            self.officer_searches()
            self.a_round_runs()
            self.devices_swap()
            self.nothing_was_told()
        finally:
            stop_all(self.server, *self.edges)
        return {**self.results, "seconds": round(time.monotonic() - started, 1)}

    def step(self, text: str) -> None:
        """Announce the next part of the story."""
        self.console.print(f"[bold]•[/] {text}")

    def operator_starts_the_server(self) -> None:
        """CA, keys, ledger and Flower come up on first start."""
        self.step("The operator starts the server: CA, keys, ledger, Flower behind its guard")
        self.server.start()
        self.console.print(f"  public TLS port {self.server.port}, data in {self.server.data}")

    def owners_join(self) -> None:
        """One token a device; both join at the same time."""
        self.step("Two owners join their devices, each with one token and nothing else")
        for edge, region in zip(self.edges, ("eu-west", "cn-east"), strict=True):
            token = self.server.token(region)["token"]
            edge.join(f"https://127.0.0.1:{self.server.port}", token)
            self.console.print(f"  {edge.name} serves {MODEL} at {edge.url}/v1")
        self.results["edges"] = len(self.edges)
        self.results["policy_before"] = max(int(edge.status()["policy"]) for edge in self.edges)

    def people_ask(self) -> None:
        """Half of the questions go to each device, English and Chinese, streamed and not."""
        self.step(f"People ask {len(self.pairs)} questions in English and Chinese")
        started = time.monotonic()
        with ThreadPoolExecutor(len(self.edges)) as pool:
            list(pool.map(self._ask_half, range(len(self.edges))))
        seconds = time.monotonic() - started
        self.console.print(f"  {len(self.answers)} answers in {seconds:.1f} s, none of them left its device")

    def _ask_half(self, number: int) -> None:
        for place, pair in enumerate(self.pairs[number :: len(self.edges)]):
            self._ask(self.edges[number], pair["prompt"], stream=place % 2 == 0)

    def _ask(self, edge: Edge, prompt: str, stream: bool) -> str:
        model = OpenAI(base_url=f"{edge.url}/v1", api_key="local", max_retries=0, timeout=180)
        question: Any = {
            "model": MODEL,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
        }
        if stream:
            chunks = list(model.chat.completions.create(**question, stream=True))
            request_id = str(chunks[0].id)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        else:
            answer = model.chat.completions.create(**question)
            request_id, text = str(answer.id), answer.choices[0].message.content or ""
        self.answers[request_id] = (edge, text)
        return request_id

    def people_judge(self) -> None:
        """Each question's author says which answer is better; a few correct the model's own answer."""
        self.step("People say which answers they prefer; the devices keep that to themselves")
        for number, edge in enumerate(self.edges):
            mine = [request_id for request_id, (owner, _) in self.answers.items() if owner is edge]
            for place, pair in enumerate(self.pairs[number :: len(self.edges)]):
                if place % 10 == 9:
                    edge.feedback(request_id=mine[place], edited=pair["chosen"])
                else:
                    question = [{"role": "user", "content": pair["prompt"]}]
                    edge.feedback(messages=question, chosen=pair["chosen"], rejected=pair["rejected"])

    def receipts_come_back(self) -> None:
        """Every answer has a receipt that checks offline."""
        self.step("The ledger's receipts come back and are verified offline")
        vkey = json.loads((self.server.officer / "officer.json").read_text(encoding="utf-8"))["log_vkey"]
        verified = 0
        for edge in self.edges:
            mine = [request_id for request_id, (owner, _) in self.answers.items() if owner is edge]
            for text in edge.receipts(mine).values():
                verified += check_receipt(text, vkey).entry.kind == "output"
        self.results["generated"] = len(self.answers)
        self.results["receipts_verified"] = verified
        self.console.print(f"  {verified} of {len(self.answers)} receipts check")

    def officer_searches(self) -> None:
        """A generated text is found, another is not."""
        self.step("The officer asks where two texts came from, without sending either")
        _, generated = max(self.answers.values(), key=lambda answer: len(answer[1]))
        hit = self._search("letter.txt", "  " + generated.replace(" ", "  ", 3) + "\n", found=0)
        miss = self._search("other.txt", NEVER_GENERATED, found=1)
        self.results["officer_hit"] = bool(hit["matches"]) and hit["verdict"] in {"exact", "canonical"}
        self.results["officer_miss"] = not miss["matches"]
        self.console.print(f"  first text: {hit['verdict']} match; second text: no match")

    def _search(self, name: str, text: str, found: int) -> dict[str, Any]:
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        output = command(
            "fedaigc-ledger", "search", path, "--officer", self.server.officer, "--case", "demo-1", "--json",
            accept=(found,),
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(output)
        return answer

    def a_round_runs(self) -> None:
        """A private round over Flower, and what the devices do meanwhile."""
        self.step("The operator runs a round: the devices train under differential privacy")
        deadline = 600
        begun = self.server.command(
            "round", "run", "--min-nodes", len(self.edges), "--deadline", deadline, "--no-wait"
        )
        ended = watch_round(self.console, self.server, self.edges, begun["round"], deadline + AVERAGING_S)
        if ended["state"] != "released":
            raise StoryFailed(f"round {ended['round']} ended {ended['state']}: {ended.get('reason')}")
        self.console.print(f"  round {ended['round']} released policy {ended['policy']}")

    def devices_swap(self) -> None:
        """Both devices serve the new policy without having stopped."""
        self.step("The devices verify the new policy, swap it in and answer under it")
        daemons: list[Daemon] = [edge.running() for edge in self.edges]
        for edge in self.edges:
            wait_for(f"policy 1 on {edge.name}", partial(_serves_policy, edge, 1), 90, *daemons)
        for number, edge in enumerate(self.edges):
            for pair in self.pairs[number : number + AFTERWARDS * len(self.edges) : len(self.edges)]:
                self._ask(edge, pair["prompt"], stream=False)
        self.receipts_come_back()
        states = [edge.status() for edge in self.edges]
        self.results["policy_after"] = min(int(state["policy"]) for state in states)
        self.results["epsilon_spent_max"] = max(round(float(state["epsilon_spent"]), 4) for state in states)
        self.results["hot_swap_ms"] = max(round(float(state["hot_swap_ms"]), 1) for state in states)
        self.results["adapter_changed"] = all(self._adapter_changed(edge) for edge in self.edges)
        self.results["fingerprinted"] = sum(int(state["fingerprinted"]) for state in states)
        self.results["ledger_size"] = int(self.server.command("status")["ledger_size"])

    def _adapter_changed(self, edge: Edge) -> bool:
        (blob,) = (edge.data / "policy").glob("1/adapter.safetensors")
        adapter = Adapter.from_bytes(blob.read_bytes())
        return any(bool(np.abs(b).max() > 0) for b in adapter.b.values())

    def nothing_was_told(self) -> None:
        """No prompt, answer or judgement is anywhere at the server."""
        self.step("Searching all that the server stored and received for prompts, answers and judgements")
        texts = [text for _, text in self.answers.values()]
        texts += [pair[part] for pair in self.pairs for part in ("prompt", "chosen", "rejected")]
        server = self.server
        logs = self.work / "logs"
        server_log = self.work / "server-log"
        server_log.mkdir(exist_ok=True)
        (server_log / "server.log").write_bytes((logs / "server.log").read_bytes())
        received = sum(path.stat().st_size for path in server.tap.rglob("*") if path.is_file())
        if received == 0:
            raise StoryFailed("the tap recorded nothing, so the search would prove nothing")
        leaked = leaked_bytes(texts, [server.data, server.tap, server_log])
        self.results["plaintext_bytes_at_server"] = leaked
        self.console.print(f"  {leaked} bytes found in the data folder and in {received} bytes received")


def _serves_policy(edge: Edge, version: int) -> bool | None:
    return int(edge.status()["policy"]) == version or None
