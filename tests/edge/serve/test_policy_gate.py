"""The gate never starts open, and swaps its rules whole."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from fedaigc.errors import Denied, SettingsError, VerificationFailed
from fedaigc_edge.serve.policy_gate import OFF_LOOP_CHARACTERS, Permit, PolicyGate
from fedaigc_edge.serve.request import ChatMessage, GenerationRequest
from fedaigc_edge.step import Maker
from tests.edge.serve.scripted import RULES, request, until

LONG = "x " * OFF_LOOP_CHARACTERS


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text(RULES, encoding="utf-8")
    return path


def admit(gate: PolicyGate, content: str, **changes: Any) -> Permit[GenerationRequest]:
    return asyncio.run(gate.admit(request(content, **changes)))


def test_what_passes_gets_a_permit_with_the_version(rules: Path) -> None:
    gate = PolicyGate(rules)
    assert admit(gate, "a pear").rules == gate.rules.version


@pytest.mark.parametrize(
    "content", ["a Forbidden  APPLE", "禁\u200b果", "078-05-1120", "x " * OFF_LOOP_CHARACTERS + "禁果"]
)
def test_what_a_rule_names_is_denied_with_the_rules_id(rules: Path, content: str) -> None:
    with pytest.raises(Denied) as caught:
        admit(PolicyGate(rules), content)
    assert caught.value.rule == "no-apples"
    assert content not in str(caught.value)


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_every_message_is_judged_whoever_wrote_it(rules: Path, role: str) -> None:
    messages = (ChatMessage("user", "hello"), ChatMessage(role, "forbidden apple"), ChatMessage("user", "go"))
    with pytest.raises(Denied):
        admit(PolicyGate(rules), "", messages=messages)


def test_the_denial_speaks_the_callers_language(rules: Path) -> None:
    gate = PolicyGate(rules)
    with pytest.raises(Denied, match="不允许苹果"):
        admit(gate, "禁果", language="zh")
    with pytest.raises(Denied, match="Apples are not allowed"):
        admit(gate, "禁果")


def test_a_configured_gate_does_not_start_without_usable_rules(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").touch()
    for name in ("empty.yaml", "missing.yaml"):
        with pytest.raises(SettingsError):
            PolicyGate(tmp_path / name)


def test_running_without_rules_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        gate = PolicyGate()
    assert "rules=none" in caplog.text
    assert admit(gate, "forbidden apple").rules == gate.rules.version


def test_a_change_is_taken_up_and_a_mistake_leaves_the_rules_as_they_were(rules: Path) -> None:
    gate = PolicyGate(rules)
    assert gate.reload() is False
    first = gate.rules.version
    rules.write_text(RULES.replace("forbidden apple", "forbidden pear"), encoding="utf-8")
    assert gate.reload() is True
    assert gate.rules.version != first
    with pytest.raises(Denied):
        admit(gate, "forbidden pear")
    for spoil in (lambda: rules.write_text("nonsense: true"), lambda: rules.write_text(""), rules.unlink):
        spoil()
        second = gate.rules.version
        assert gate.reload() is False
        assert gate.rules.version == second
        assert isinstance(gate.problem, SettingsError)
        with pytest.raises(Denied):
            admit(gate, "forbidden pear")
    rules.write_text(RULES, encoding="utf-8")
    assert gate.reload() is True
    assert gate.problem is None
    assert gate.rules.version == first


def test_every_decision_during_a_storm_of_reloads_is_of_one_version(rules: Path) -> None:
    texts = [RULES, RULES.replace("forbidden apple", "forbidden pear")]
    gate = PolicyGate(rules)
    apple_version = gate.rules.version

    def change(turn: int) -> None:
        rules.write_text(texts[turn % 2] + f"# {turn}\n", encoding="utf-8")
        gate.reload()

    async def storm() -> None:
        for turn in range(60):
            reloading = asyncio.create_task(asyncio.to_thread(change, turn))
            for _ in range(20):
                await decide()
            await reloading

    async def decide() -> None:
        try:
            permit = await gate.admit(request(LONG + "forbidden apple"))
        except Denied:
            return
        assert permit.rules != apple_version

    asyncio.run(storm())


def test_watching_reloads_by_itself(rules: Path) -> None:
    gate = PolicyGate(rules)
    first = gate.rules.version
    rules.write_text(RULES.replace("forbidden apple", "forbidden pear"), encoding="utf-8")

    async def scenario() -> None:
        watching = asyncio.create_task(gate.watch(0.01))
        await asyncio.to_thread(until, lambda: gate.rules.version != first)
        watching.cancel()

    asyncio.run(scenario())


def test_a_permit_cannot_be_made_by_hand() -> None:
    with pytest.raises(VerificationFailed, match=r"PolicyGate\.admit"):
        Permit(request(), "", Maker())  # type: ignore[arg-type]
