"""Prompts become tokens, and what cannot names its field."""

from __future__ import annotations

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import RequestId
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.prompt_tokens import check_token_ids, input_tokens, prompt_tokens
from fedaigc_edge.serve.request import EmbeddingRequest, ToolUse
from tests.edge.serve.scripted import request
from tests.edge.serve.scripted_generator import ScriptedGenerator


class Refusing(ScriptedGenerator):
    def encode(self, text: str) -> list[int]:
        raise RequestInvalid("No model reads this", field="messages")


def test_a_conversation_is_one_prompt_under_the_template() -> None:
    generator = ScriptedGenerator(takes_tools=True)
    use = ToolUse(({"name": "f"},), ("f",), must_call=False)
    assert prompt_tokens(request("one two", tools=use), generator) == ((0, 1, 2, 3, 4),)
    ((messages, tools),) = generator.templated
    assert [message["role"] for message in messages] == ["system", "user"]
    assert tools == [{"type": "function", "function": {"name": "f"}}]


def test_raw_prompts_are_encoded_and_token_ids_taken_as_they_are() -> None:
    assert prompt_tokens(request(prompts=("a b", (7, 8))), ScriptedGenerator()) == ((0, 1, 2), (7, 8))
    asked = EmbeddingRequest(RequestId("embd-1"), "tiny", ("a", (9,)))
    assert input_tokens(asked, ScriptedGenerator()) == ((0, 1), (9,))


def test_a_text_that_no_model_reads_is_refused_by_the_field_that_holds_it() -> None:
    with pytest.raises(RequestInvalid) as caught:
        prompt_tokens(request(prompts=("x",)), Refusing())
    assert caught.value.field == "prompt"
    with pytest.raises(RequestInvalid) as caught:
        input_tokens(EmbeddingRequest(RequestId("embd-1"), "tiny", ("x",)), Refusing())
    assert caught.value.field == "input"


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (request(prompts=((5, 100),)), "prompt"),
        (request(sampling=Sampling(0, logit_bias={3: 1.0, 100: 1.0})), "logit_bias"),
        (EmbeddingRequest(RequestId("embd-1"), "tiny", ("x", (100,))), "input"),
    ],
)
def test_a_token_that_the_model_does_not_have_is_refused(asked: EmbeddingRequest, field: str) -> None:
    check_token_ids(asked, 101)
    with pytest.raises(RequestInvalid) as caught:
        check_token_ids(asked, 100)
    assert caught.value.field == field
