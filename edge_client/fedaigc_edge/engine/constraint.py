"""Answers that keep to a grammar: a JSON schema, a regular expression or a Lark grammar, by llguidance.

llguidance takes a grammar's bytes apart along the model's tokens, so any token that continues an allowed
text is allowed. Its own limits bound the work of each step; ours bound what reaches it.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import llguidance
import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError, RequestInvalid
from fedaigc_edge.engine.grammar_tokens import grammar_tokenizer
from fedaigc_edge.engine.regex_size import repetitions
from fedaigc_edge.engine.sampling import Grammar
from fedaigc_edge.engine.text_codec import TextCodec

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

MAX_GRAMMAR_BYTES = 64 << 10
MAX_REPETITIONS = 20_000
"""Of a regular expression, multiplied out: a million hold up every answer for seconds."""
CACHED_GRAMMARS = 32

_LIMITS = llguidance.LLParserLimits(max_lexer_states=20_000, verbose_errors=False)
# A schema may bring options of its own under "x-guidance"; these win over them. One space, or one new line
# and its indent: with any amount allowed, a model can write white space until its tokens are spent.
_JSON_OPTIONS: JsonCompileOptions = {
    "item_separator": ",",
    "key_separator": ":",
    "whitespace_flexible": True,
    "whitespace_pattern": r"( |\r?\n[ \t]{0,32})",
    "coerce_one_of": False,
    "lenient": False,
}
_KEYWORD = re.compile(r'"(\$?[A-Za-z]{2,30})"')
_UNSUPPORTED = "Unimplemented keys"
_NAMEABLE = frozenset(
    {"not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames"}
    | {"unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas", "dependencies"}
    | {"$dynamicRef", "$recursiveRef"}
)
"""Keywords of JSON Schema that a refusal may name: they are the standard's words, not the caller's."""


class Constraint:
    """Where one answer stands in its grammar; not thread-safe."""

    def __init__(self, matcher: llguidance.LLMatcher, words: int) -> None:
        self._matcher = matcher
        self._bits = np.zeros(words, np.uint32)

    def mask(self, logits: FloatArray) -> None:
        """Set to -inf, in place, each of the (vocabulary,) logits that may not come next.

        An end token may come only where the grammar may end. Raises ModelError when a step is too large.
        """
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        self._check()
        barred = np.unpackbits((~self._bits).view(np.uint8), count=logits.size, bitorder="little")
        np.copyto(logits, -np.inf, where=barred.view(bool))

    def accept(self, token: int) -> None:
        """Advance by a token. Raises ModelError for one that may not come next."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def finished(self) -> bool:
        """Whether the answer is complete and only an end token can follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def fork(self) -> Constraint:
        """An independent copy that stands where this one stands."""
        return Constraint(self._matcher.deep_copy(), self._bits.size)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ModelError(
                "The answer cannot go on in its form",
                "a token was not allowed, or the form is too complex to follow further",
                "ask again with a simpler schema or grammar",
            )


class Constraints:
    """Compiles grammars for one tokenizer; called from any thread.

    Args:
        codec: the model's tokenizer.
        ends: the tokens that end an answer, at least one.
        vocabulary: how many logits the model gives.
    """

    def __init__(self, codec: TextCodec, ends: Iterable[int], vocabulary: int) -> None:
        self._words = (vocabulary + 31) // 32
        self._tokenizer = grammar_tokenizer(codec, sorted(ends), vocabulary)
        self._cache: OrderedDict[Grammar, Constraint] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, grammar: Grammar) -> Constraint:
        """A constraint at the grammar's start. May take up to a second, so not on an event loop.

        Raises RequestInvalid with field "response_format"; it names keywords of JSON Schema at most.
        """
        with self._lock:
            known = self._cache.get(grammar)
            if known is not None:
                self._cache.move_to_end(grammar)
                return known.fork()
        made = self._compile(grammar)
        with self._lock:
            self._cache[grammar] = made
            while len(self._cache) > CACHED_GRAMMARS:
                self._cache.popitem(last=False)
            return made.fork()

    def _compile(self, grammar: Grammar) -> Constraint:
        if len(grammar.text.encode("utf-8", "surrogatepass")) > MAX_GRAMMAR_BYTES:
            raise _refused(f"it is longer than {MAX_GRAMMAR_BYTES} bytes")
        try:
            if any(repetitions(pattern) > MAX_REPETITIONS for pattern in _patterns(grammar)):
                raise _refused(f"its repetitions multiply to more than {MAX_REPETITIONS}")
            matcher = llguidance.LLMatcher(self._tokenizer, _compiled(grammar), log_level=0, limits=_LIMITS)
        except (ValueError, RecursionError):
            raise _refused("it cannot be read") from None
        if not matcher.is_error():
            # Some faults, and most of the work, come with the first step.
            matcher.compute_bitmask()
        if matcher.is_error():
            raise _refused(_reason(matcher.get_error()))
        return Constraint(matcher, self._words)


def _compiled(grammar: Grammar) -> str:
    if grammar.kind == "json_schema":
        return llguidance.LLMatcher.grammar_from_json_schema(grammar.text, overrides=_JSON_OPTIONS)
    if grammar.kind == "regex":
        return llguidance.LLMatcher.grammar_from_regex(grammar.text)
    return llguidance.LLMatcher.grammar_from_lark(grammar.text)


def _patterns(grammar: Grammar) -> Iterator[str]:
    """The texts of a grammar that hold regular expressions. Raises ValueError, RecursionError."""
    if grammar.kind == "json_schema":
        yield from _schema_patterns(json.loads(grammar.text))
    else:
        yield grammar.text


def _schema_patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _schema_patterns(item)
    elif isinstance(schema, dict):
        for key, item in schema.items():
            if key == "pattern" and isinstance(item, str):
                yield item
            if key == "patternProperties" and isinstance(item, dict):
                yield from item
            yield from _schema_patterns(item)


def _reason(error: str) -> str:
    """llguidance's message, as far as it can be told without quoting the caller."""
    named = sorted(set(_KEYWORD.findall(error)) & _NAMEABLE) if _UNSUPPORTED in error else []
    if named:
        return f"these keywords are not supported: {', '.join(named)}"
    if "Unsatisfiable" in error:
        return "nothing can satisfy it"
    return "it is malformed, not supported, or too complex"


def _refused(why: str) -> RequestInvalid:
    return RequestInvalid(
        "The answer's form cannot be used", why, "change the schema or grammar", field="response_format"
    )
