"""Read the gate's YAML rule file strictly: whatever is not understood is an error with file and line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import yaml

from fedaigc.errors import SettingsError
from fedaigc.policy_rules import (
    SEVERITIES,
    AllOf,
    Denial,
    ForbidPatterns,
    ForbidWords,
    Rule,
    RuleSet,
    Severity,
    folded_text,
)
from fedaigc_edge.serve.linear_pattern import LinearPattern, PatternRefused

MAX_FILE_BYTES = 1 << 20
MAX_RULES = 1000
MAX_DEPTH = 8
FORMAT = 1
LANGUAGES = ("en", "zh")
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")

T = TypeVar("T")


def read_rule_file(path: Path) -> RuleSet:
    """The rules in `path`, at least one.

    Raises SettingsError with `file:line` for anything missing, unknown or malformed, an empty file included.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"Cannot read the rule file {path}", error.strerror or "", "correct the path, or write the file"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError(f"{path} is too large for a rule file", f"limit {MAX_FILE_BYTES} bytes", "cut it")
    return _RuleFile(str(path)).rules(data)


@dataclass(frozen=True)
class _RuleFile:
    name: str

    def rules(self, data: bytes) -> RuleSet:
        root = self._root(data)
        fields = self._mapping(root, {"version", "rules"}, {"version", "rules"})
        if fields["version"].value != str(FORMAT):
            self._fail(fields["version"], f"version must be {FORMAT}", "write version: 1")
        nodes = self._list(fields["rules"], MAX_RULES, "rules")
        built = [self._rule(node) for node in nodes]
        seen: set[str] = set()
        for node, (_, record) in zip(nodes, built, strict=True):
            if record["id"] in seen:
                self._fail(node, f"the id {record['id']} stands twice", "give every rule its own id")
            seen.add(record["id"])
        return RuleSet.described(
            AllOf(rule for rule, _ in built), {"v": FORMAT, "rules": [record for _, record in built]}
        )

    def _root(self, data: bytes) -> yaml.Node:
        try:
            text = data.decode("utf-8-sig")
            self._check_shape(text)
            root = yaml.compose(text, yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise SettingsError(
                f"{self.name}:{line}: not valid YAML", error.problem or "", "correct the line"
            ) from error
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise SettingsError(
                f"{self.name}: not valid YAML", type(error).__name__, "write UTF-8 text, nested less deeply"
            ) from error
        if root is None:
            raise SettingsError(
                f"{self.name} holds no rules",
                "the file is empty",
                "write rules, or remove the `gate` setting to run without a gate",
            )
        return root

    def _check_shape(self, text: str) -> None:
        # Before the tree is built: aliases make a small file grow without end, deep nesting takes minutes.
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise SettingsError(f"{self.name}: aliases (*name) are not allowed", "", "repeat the value")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise SettingsError(f"{self.name} is nested too deeply for a rule file", "", "correct it")

    def _rule(self, node: yaml.Node) -> tuple[Rule, dict[str, Any]]:
        fields = self._mapping(
            node,
            {"id", "action", "severity", "category", "message", "keywords", "regex"},
            {"id", "action", "severity", "category", "message"},
        )
        record: dict[str, Any] = {
            "id": self._text(fields["id"], 64),
            "action": self._one_of(fields["action"], ("reject",)),
            "severity": self._one_of(fields["severity"], SEVERITIES),
            "category": self._text(fields["category"], 64),
            "message": self._message(fields["message"]),
        }
        if not set(record["id"]) <= _ID_CHARACTERS:
            self._fail(fields["id"], "an id has only a-z, 0-9, '-', '_' and '.'", "rename the rule")
        denial = Denial(
            record["id"], cast(Severity, record["severity"]), record["category"], record["message"]
        )
        parts: list[Rule] = []
        if "keywords" in fields:
            record["keywords"] = sorted(set(self._texts(fields["keywords"], self._keyword)))
            parts.append(ForbidWords(denial, record["keywords"]))
        if "regex" in fields:
            patterns = self._texts(fields["regex"], self._pattern)
            record["regex"] = sorted({pattern.source for pattern in patterns})
            parts.append(ForbidPatterns(denial, patterns))
        if not parts:
            self._fail(node, f"the rule {record['id']} looks for nothing", "give it keywords or regex")
        return AllOf(parts), record

    def _keyword(self, node: yaml.Node) -> str:
        word = folded_text(self._text(node, 1000))
        if not word:
            self._fail(node, "a keyword has nothing visible in it", "it would match every text: remove it")
        return word

    def _pattern(self, node: yaml.Node) -> LinearPattern:
        try:
            return LinearPattern(self._text(node, 4000))
        except PatternRefused as error:
            self._fail(node, f"this regex cannot be used: {error.what}", error.do_next)

    def _message(self, node: yaml.Node) -> dict[str, str]:
        fields = self._mapping(node, set(LANGUAGES), set(LANGUAGES))
        return {language: self._text(fields[language], 500) for language in LANGUAGES}

    def _mapping(self, node: yaml.Node, known: set[str], needed: set[str]) -> Mapping[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, "a table of keys is wanted here", f"known keys are {', '.join(sorted(known))}")
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.value not in known:
                names = ", ".join(sorted(known))
                self._fail(key, f"unknown key {key.value!s:.40}", f"known keys are {names}")
            if key.value in fields:
                self._fail(key, f"the key {key.value} stands twice", "keep one of them")
            fields[key.value] = value
        for name in sorted(needed - set(fields)):
            self._fail(node, f"the key {name} is missing", "add it")
        return fields

    def _list(self, node: yaml.Node, limit: int, what: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode) or not 1 <= len(node.value) <= limit:
            self._fail(node, f"{what} must be a list of 1 to {limit} items", "put '- ' before each item")
        return list(node.value)

    def _texts(self, node: yaml.Node, read: Callable[[yaml.Node], T]) -> list[T]:
        items = [node] if isinstance(node, yaml.ScalarNode) else self._list(node, 10_000, "this")
        return [read(item) for item in items]

    def _text(self, node: yaml.Node, limit: int) -> str:
        if not isinstance(node, yaml.ScalarNode) or not 1 <= len(node.value) <= limit:
            self._fail(node, f"text of 1 to {limit} characters is wanted here", "write it in quotes")
        if node.tag != "tag:yaml.org,2002:str":
            self._fail(node, f"YAML reads this as {node.tag.rsplit(':', 1)[-1]}, not as text", "quote it")
        return str(node.value)

    def _one_of(self, node: yaml.Node, values: tuple[str, ...]) -> str:
        text = self._text(node, 64)
        if text not in values:
            self._fail(node, f"{text} is not one of {', '.join(values)}", "correct the value")
        return text

    def _fail(self, node: yaml.Node, why: str, do_next: str) -> NoReturn:
        raise SettingsError(f"{self.name}:{node.start_mark.line + 1}: {why}", "", do_next)
