from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError, RequestInvalid
from fedaigc_edge.engine.constraint import CACHED_GRAMMARS, MAX_GRAMMAR_BYTES, Constraint, Constraints
from fedaigc_edge.engine.sampling import Grammar, Sampling
from fedaigc_edge.engine.text_codec import TextCodec
from fedaigc_edge.engine.token_sampler import TokenSampler
from tests.tiny_model import make_tiny_hf_folder

END = 2
WORD = {"type": "string", "maxLength": 6}
TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer", "minimum": 0, "maximum": 99},
        "below": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1},
    },
    "required": ["value"],
    "additionalProperties": False,
}


def record(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMAS: list[dict[str, Any]] = [
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["boolean", "null"]},
    {"type": "integer", "minimum": -7, "maximum": 1_234},
    {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.25},
    WORD,
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"},
    {"type": "string", "pattern": "^[\u4e00-\u9fff]{1,3}$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"},
    {"enum": ["红", "green", 3, None, {"a": [1]}]},
    {"const": {"quote": '"', "back": "\\", "line": "\n", "emoji": "👩‍👩‍👧‍👦"}},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [WORD, {"type": "boolean"}], "items": False, "minItems": 2},
    record(name=WORD, age={"type": "integer", "minimum": 0, "maximum": 150}),
    record(**{"键": WORD, 'quo"te': {"type": "boolean"}, "": {"type": "null"}}),
    {"type": "object", "properties": {"a": WORD, "b": {"type": "null"}}, "additionalProperties": False},
    {"anyOf": [WORD, record(x={"type": "boolean"})]},
    {"oneOf": [{"const": "one"}, {"type": "boolean"}]},
    {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 40}]},
    {"$defs": {"tree": TREE}, "$ref": "#/$defs/tree"},
    record(inner=record(deep=record(flags={"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3}))),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TextCodec:
    return TextCodec.open(make_tiny_hf_folder(tmp_path_factory.mktemp("constraint") / "hf"))


@pytest.fixture(scope="module", params=["tiny", "real"])
def codec(request: pytest.FixtureRequest, tiny: TextCodec) -> TextCodec:
    if request.param == "tiny":
        return tiny
    return TextCodec.open(request.getfixturevalue("models") / "smollm2-135m" / "onnx")


@pytest.fixture(scope="module")
def constraints(codec: TextCodec) -> Constraints:
    return Constraints(codec, [END], codec.vocabulary)


@pytest.fixture(scope="module")
def small(tiny: TextCodec) -> Constraints:
    return Constraints(tiny, [END], tiny.vocabulary)


def of(schema: Any) -> Grammar:
    return Grammar("json_schema", json.dumps(schema, ensure_ascii=False))


def allowed(constraint: Constraint, vocabulary: int) -> set[int]:
    logits = np.zeros(vocabulary, np.float32)
    constraint.mask(logits)
    return set(np.flatnonzero(logits == 0).tolist())


def answer(codec: TextCodec, constraint: Constraint, seed: int, limit: int = 400) -> str:
    """What a model with random logits writes; it must end by itself."""
    sampler = TokenSampler(Sampling(limit, seed=seed), (), codec.vocabulary, constraint)
    random = np.random.default_rng(seed)
    made: list[int] = []
    while len(made) < limit:
        logits: FloatArray = random.standard_normal(codec.vocabulary).astype(np.float32)
        token = sampler.choose(logits).token
        if token == END:
            return b"".join(codec.token_bytes(one) for one in made).decode("utf-8")
        assert token not in codec.special_ids
        made.append(token)
    raise AssertionError("the answer does not end")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_whatever_the_model_prefers_the_answer_is_valid_json_of_the_schema(
    codec: TextCodec, constraints: Constraints, schema: dict[str, Any]
) -> None:
    for seed in range(12):
        written = answer(codec, constraints.compile(of(schema)), seed)
        jsonschema.validate(json.loads(written), schema, jsonschema.Draft202012Validator)


def test_strings_hold_any_characters_and_white_space_is_bounded(
    codec: TextCodec, constraints: Constraints
) -> None:
    schema = record(text={"type": "string", "maxLength": 30}, on={"type": "boolean"})
    written = [answer(codec, constraints.compile(of(schema)), seed) for seed in range(40)]
    assert any(not text.isascii() or "\\" in text for text in written)
    assert any(re.search(r"[:,{]\s", text) for text in written)
    assert not any(re.search(r"[:,{}]\s*[ \n]{40}", text) for text in written)


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar("regex", r"[a-c]{2,5}(-\d{2})?"),
        Grammar("regex", "(你好|再见)[!?]"),
        Grammar("lark", 'start: greeting " " NAME\ngreeting: "hello" | "你好"\nNAME: /[A-Z][a-z]{1,4}/'),
    ],
    ids=["regex", "regex of Chinese", "lark"],
)
def test_regular_expressions_and_lark_grammars_hold(
    codec: TextCodec, constraints: Constraints, grammar: Grammar
) -> None:
    pattern = grammar.text if grammar.kind == "regex" else r"(hello|你好) [A-Z][a-z]{1,4}"
    for seed in range(12):
        assert re.fullmatch(pattern, answer(codec, constraints.compile(grammar), seed))


def test_the_end_may_come_only_where_the_grammar_may_end(codec: TextCodec, constraints: Constraints) -> None:
    constraint = constraints.compile(Grammar("regex", "a(bb)*c?"))
    (a,), (b,), (c,) = (codec.encode(letter) for letter in "abc")
    assert END not in allowed(constraint, codec.vocabulary)
    for token, may_end in ((a, True), (b, False), (b, True)):
        constraint.accept(token)
        assert (END in allowed(constraint, codec.vocabulary)) is may_end
        assert not constraint.finished
    constraint.accept(c)
    assert constraint.finished
    assert allowed(constraint, codec.vocabulary) == {END}
    constraint.accept(END)
    assert constraint.finished


def test_any_of_several_end_tokens_may_end(tiny: TextCodec) -> None:
    constraint = Constraints(tiny, [0, END], tiny.vocabulary + 7).compile(Grammar("regex", "a?"))
    (a,) = tiny.encode("a")
    assert allowed(constraint, tiny.vocabulary + 7) == {0, END, a}


def test_a_token_that_is_not_allowed_is_a_model_error_that_quotes_nothing(
    tiny: TextCodec, small: Constraints
) -> None:
    constraint = small.compile(Grammar("regex", "secret"))
    with pytest.raises(ModelError) as failed:
        constraint.accept(tiny.encode("x")[0])
    assert "secret" not in str(failed.value)
    assert not constraint.finished
    with pytest.raises(ModelError):
        constraint.mask(np.zeros(tiny.vocabulary, np.float32))


def test_a_fork_goes_its_own_way_from_where_it_was_made(tiny: TextCodec, small: Constraints) -> None:
    first = small.compile(Grammar("regex", "ab|ac"))
    (a,), (b,), (c,) = (tiny.encode(letter) for letter in "abc")
    first.accept(a)
    second = first.fork()
    first.accept(b)
    assert first.finished
    assert allowed(second, tiny.vocabulary) == {b, c}
    second.accept(c)
    assert second.finished


def test_two_answers_of_one_schema_do_not_disturb_each_other(tiny: TextCodec, small: Constraints) -> None:
    alone = [answer(tiny, small.compile(of(SCHEMAS[14])), seed) for seed in range(20)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: answer(tiny, small.compile(of(SCHEMAS[14])), seed), range(20)))
    assert together == alone


def unusable() -> Iterator[tuple[str, Grammar, str]]:
    deep: Any = {"type": "integer"}
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    nest = '{"a":' * 5_000 + "1" + "}" * 5_000
    yield "not JSON", Grammar("json_schema", '{"type": "object", secret'), "read"
    yield "not an object", Grammar("json_schema", '"secret"'), "read"
    yield "half a surrogate pair", Grammar("json_schema", '{"const": "secret\ud83d"}'), ""
    yield "unknown type", of({"type": "secret"}), "malformed"
    yield "unknown format", of({"type": "string", "format": "secret"}), "malformed"
    yield "unsupported keyword", of({"type": "string", "not": {"const": "secret"}}), "not supported: not"
    yield "impossible", of(record(secret={"type": "integer", "minimum": 2, "maximum": 1})), "nothing can"
    yield "a reference to nowhere", of({"$ref": "#/$defs/secret"}), "malformed"
    yield "a reference to the net", of({"$ref": "http://127.0.0.1:9/secret.json"}), "malformed"
    yield "a circle", of({"$defs": {"secret": {"$ref": "#/$defs/secret"}}, "$ref": "#/$defs/secret"}), ""
    yield "itself", of({"$ref": "#"}), ""
    yield "too deep", Grammar("json_schema", json.dumps(deep)), ""
    yield "too deep to parse", Grammar("json_schema", nest), ""
    yield "too long", of({"const": "secret" * MAX_GRAMMAR_BYTES}), "longer"
    yield "look-around", of({"type": "string", "pattern": "(?=secret)x"}), "malformed"
    yield "huge pattern", of(record(a={"type": "string", "pattern": "(s{1000}){1000}"})), "multiply"
    yield "huge pattern key", of({"patternProperties": {"(s{1000}){1000}": {}}}), "multiply"
    yield "huge expression", Grammar("regex", "b(secret{1000}){1000}"), "multiply"
    yield "bad expression", Grammar("regex", "(secret"), "malformed"
    yield "deep expression", Grammar("regex", "(" * 30_000 + "a" + ")" * 30_000), ""
    yield "bad grammar", Grammar("lark", "secret: start"), "malformed"
    yield "deep grammar", Grammar("lark", "start: " + "(" * 30_000 + '"a"' + ")" * 30_000), ""


@pytest.mark.parametrize(("grammar", "why"), [pytest.param(g, why, id=name) for name, g, why in unusable()])
def test_a_grammar_that_cannot_be_used_is_refused_without_quoting_it(
    small: Constraints, grammar: Grammar, why: str
) -> None:
    with pytest.raises(RequestInvalid) as refused:
        small.compile(grammar)
    assert refused.value.field == "response_format"
    assert why in refused.value.why
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_schema_s_own_options_do_not_loosen_it(tiny: TextCodec, small: Constraints) -> None:
    loose = {"x-guidance": {"lenient": True, "item_separator": ";", "whitespace_pattern": "x+"}}
    written = [answer(tiny, small.compile(of(SCHEMAS[12] | loose)), seed) for seed in range(10)]
    assert all(len(json.loads(text)) >= 2 for text in written)
    with pytest.raises(RequestInvalid):
        small.compile(of({"type": "string", "not": {"const": "a"}} | loose))


def test_compiled_grammars_are_kept_and_the_oldest_forgotten(
    tiny: TextCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints = Constraints(tiny, [END], tiny.vocabulary)
    made: list[str] = []
    compiled = constraints._compile

    def noted(grammar: Grammar) -> Constraint:
        made.append(grammar.text)
        return compiled(grammar)

    monkeypatch.setattr(constraints, "_compile", noted)
    grammars = [Grammar("regex", f"a{{{number}}}b") for number in range(1, CACHED_GRAMMARS + 2)]
    for grammar in grammars[:-1]:
        constraints.compile(grammar)
    constraints.compile(grammars[0]).accept(tiny.encode("a")[0])
    constraints.compile(grammars[-1])
    assert made == [grammar.text for grammar in grammars]
    assert END not in allowed(constraints.compile(grammars[0]), tiny.vocabulary)
    constraints.compile(Grammar("lark", 'start: "x"'))
    assert len(made) == len(grammars) + 1
    constraints.compile(grammars[1])
    assert made[-1] == grammars[1].text


def test_constraints_open_from_a_folder_of_any_place(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "somewhere else" / "模型")
    codec = TextCodec.open(folder)
    constraint = Constraints(codec, [END], codec.vocabulary).compile(Grammar("regex", "a"))
    assert allowed(constraint, codec.vocabulary) == set(codec.encode("a"))
