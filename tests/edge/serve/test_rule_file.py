"""A rule file is understood wholly or refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import SettingsError
from fedaigc_edge.serve.rule_file import MAX_FILE_BYTES, read_rule_file

EXAMPLE = Path(__file__).resolve().parents[3] / "configs" / "gate.yaml"
RULE = """version: 1
rules:
  - id: one
    action: reject
    severity: high
    category: test
    message: {en: "no", zh: 不行}
    keywords: [apple]
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "gate.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def test_a_rule_denies_what_it_names(tmp_path: Path) -> None:
    rules = read_rule_file(written(tmp_path, RULE))
    denial = rules.judge(["an APPLE a day"])
    assert denial is not None
    assert (denial.rule, denial.severity, denial.category) == ("one", "high", "test")
    assert denial.told_in("zh") == "不行"
    assert rules.judge(["a pear"]) is None


def test_keywords_and_regex_of_one_rule_each_deny(tmp_path: Path) -> None:
    rules = read_rule_file(written(tmp_path, RULE + "    regex: ['\\d{3}', '[xyz]{2}']\n"))
    for text in ("apple", "123", "xy"):
        assert rules.judge([text]) is not None
    assert rules.judge(["12 x"]) is None


@pytest.mark.parametrize(
    "text",
    [
        "my number is 078-05-1120",
        "SOCIAL_SECURITY_NUMBER please",
        "身份证号11010119900307123X。",
        "身份证号１１０１０１１９９００３０７１２３Ｘ。",
        "-----BEGIN RSA PRIVATE KEY-----",
        "请写一份绝\u200b密文件",
    ],
)
def test_the_example_file_denies_what_its_comments_say(text: str) -> None:
    assert read_rule_file(EXAMPLE).judge([text]) is not None


@pytest.mark.parametrize(
    "text", ["call 555-1234", "order 12345678901234567890", "keep it a secret", "写一首诗"]
)
def test_the_example_file_lets_everyday_requests_pass(text: str) -> None:
    assert read_rule_file(EXAMPLE).judge([text]) is None


def test_comments_and_the_order_of_keys_do_not_change_the_version(tmp_path: Path) -> None:
    other = """# a comment
rules:
  - keywords: [apple]
    message: {zh: 不行, en: "no"}
    category: test
    severity: high
    id: one
    action: reject
version: 1
"""
    version = read_rule_file(written(tmp_path, RULE)).version
    assert read_rule_file(written(tmp_path, other)).version == version
    assert read_rule_file(written(tmp_path, RULE.replace("apple", "pear"))).version != version
    assert read_rule_file(written(tmp_path, RULE.replace("high", "low"))).version != version


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (("version: 1", "version: 2"), 1, "version must be 1"),
        (("version: 1", "vershun: 1"), 1, "unknown key vershun"),
        (("    category: test", "    kategory: test"), 6, "unknown key kategory"),
        (("    category: test\n", ""), 3, "category is missing"),
        (("severity: high", "severity: huge"), 5, "huge is not one of"),
        (("action: reject", "action: redact"), 4, "redact is not one of"),
        (("id: one", "id: One Two"), 3, "an id has only"),
        (("id: one", "id: 17"), 3, "not as text"),
        (("[apple]", "[apple, no]"), 8, "not as text"),
        (("[apple]", "[]"), 8, "list of 1 to"),
        (("[apple]", '["\u200b "]'), 8, "nothing visible"),
        (("keywords: [apple]", "regex: '(a'"), 8, "missing )"),
        (("keywords: [apple]", "regex: 'a*'"), 8, "empty text"),
        (("    keywords: [apple]\n", ""), 3, "looks for nothing"),
        (("zh: 不行", "fr: non"), 7, "unknown key fr"),
        (("category: test", "category: test\n    category: test"), 7, "stands twice"),
        (("    keywords: [apple]", "    keywords: [apple"), 9, "not valid YAML"),
        (("keywords: [apple]", "keywords: {a: b}"), 8, "list of 1 to"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, change: tuple[str, str], line: int, said: str
) -> None:
    path = written(tmp_path, RULE.replace(*change))
    with pytest.raises(SettingsError) as caught:
        read_rule_file(path)
    assert f"{path}:{line}:" in str(caught.value)
    assert said in str(caught.value)


def test_two_rules_may_not_share_an_id(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="stands twice"):
        read_rule_file(written(tmp_path, RULE + RULE.split("rules:\n")[1]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# only a comment\n",
        b"version: 1\nrules: []\n",
        b"version: 1\nrules:\n",
        b"- a\n",
        b"\xff\xfe",
        b"a: &x [1]\nb: *x\n",
        b"[" * 100_000,
        b"x" * (MAX_FILE_BYTES + 1),
    ],
)
def test_a_file_without_usable_rules_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SettingsError, match=r"gate\.yaml"):
        read_rule_file(written(tmp_path, content))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read"):
        read_rule_file(tmp_path / "none.yaml")


@given(st.text(max_size=200))
def test_no_file_whatever_it_holds_gives_another_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = written(tmp_path_factory.mktemp("rules"), text.encode("utf-8", "replace"))
    with pytest.raises(SettingsError):
        read_rule_file(path)
