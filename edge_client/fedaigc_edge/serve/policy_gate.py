"""Ask the rules before anything is generated; let a request pass as a Permit or refuse it with Denied."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fedaigc.errors import Denied, FedaigcError
from fedaigc.files import file_stamp
from fedaigc.policy_rules import Denial, RuleSet, no_rules
from fedaigc_edge.serve.request import Judged, TokenReader
from fedaigc_edge.serve.rule_file import read_rule_file
from fedaigc_edge.step import Maker, made_only_by

log = logging.getLogger(__name__)

POLL_S = 2.0
"""How often a changed rule file is looked for, seconds."""

OFF_LOOP_CHARACTERS = 8192
"""A longer request is judged in a thread: normalising a megabyte takes tens of milliseconds."""


R = TypeVar("R", bound=Judged)


class _Gate(Maker):
    """Held by this module alone."""


_GATE = _Gate()


@dataclass(frozen=True)
class Permit(Generic[R]):
    """The gate's yes: this request passed this version of the rules. Made by `PolicyGate.admit` only."""

    request: R
    rules: str
    """The rule set's version, 64 hexadecimal digits."""
    maker: InitVar[_Gate]

    def __post_init__(self, maker: _Gate) -> None:
        made_only_by(maker, _GATE, "PolicyGate.admit")


class PolicyGate:
    """The rules in force. Changing them swaps one reference, so each request meets one version.

    Args:
        path: the YAML rule file; None runs without rules, which is logged as a warning.

    Raises SettingsError when a file is named and cannot be used: a configured gate never starts open.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stamp = file_stamp(path)
        self.problem: FedaigcError | None = None
        """Why the newest rule file is not in force; None when it is."""
        if path is None:
            log.warning("gate rules=none every_request=passes")
            self.rules = no_rules()
        else:
            self.rules = read_rule_file(path)
            log.info("gate rules=%s", self.rules.version[:16])

    async def admit(self, request: R, token_bytes: TokenReader | None = None) -> Permit[R]:
        """Judge every text; raises Denied with the first rule that refuses, in the caller's language.

        Without `token_bytes` a prompt of token ids is refused, RequestInvalid: nobody could read it.
        """
        rules = self.rules
        texts = request.texts(token_bytes)
        if sum(map(len, texts)) > OFF_LOOP_CHARACTERS:
            denial = await asyncio.to_thread(rules.judge, texts)
        else:
            denial = rules.judge(texts)
        if denial is not None:
            self._refuse(request, rules, denial)
        return Permit(request, rules.version, _GATE)

    def reload(self) -> bool:
        """Read the file again if it changed; returns whether other rules are in force now.

        A file that is missing or wrong leaves the rules as they are and is kept in `problem`.
        """
        stamp = file_stamp(self._path)
        if self._path is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            rules = read_rule_file(self._path)
        except FedaigcError as error:
            self.problem = error
            log.error("gate reload=refused rules=%s error=%s", self.rules.version[:16], error)
            return False
        self.problem = None
        changed = rules.version != self.rules.version
        self.rules = rules
        log.info("gate reload=done changed=%s rules=%s", changed, rules.version[:16])
        return changed

    async def watch(self, poll_s: float = POLL_S) -> None:
        """Reload on every change until cancelled."""
        while True:
            await asyncio.sleep(poll_s)
            await asyncio.to_thread(self.reload)

    def _refuse(self, request: Judged, rules: RuleSet, denial: Denial) -> None:
        log.info("denied request=%s rule=%s rules=%s", request.id, denial.rule, rules.version[:16])
        raise Denied(
            denial.told_in(request.language),
            f"rule {denial.rule}, category {denial.category}, severity {denial.severity}",
            "change the request; whoever runs this device can say more about the rule",
            rule=denial.rule,
        )
