from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fedaigc.errors import ModelError, RequestInvalid
from fedaigc_edge.engine.chat_template import ChatTemplate

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": '你好 "x" <b>\n{{ y }}'},
    {"role": "assistant", "content": "  👩‍👩‍👧‍👦 \\n "},
    {"role": "user", "content": "{% raise %}"},
]
TOOLS = [
    {"type": "function", "function": {"name": "天气", "parameters": {"type": "object", "properties": {}}}}
]
EACH = "{% for m in messages %}"
TEMPLATES = {
    "blocks are trimmed": EACH
    + "\n    {% if m.role == 'user' %}\n{{ m.content }}\n{% endif %}\n{% endfor %}",
    "loop controls": EACH + "{% if loop.index > 2 %}{% break %}{% endif %}{{ m.content }};{% endfor %}",
    "tojson": "{{ messages|tojson }}{{ tools|tojson(indent=2) }}{{ messages[0]|tojson(sort_keys=true) }}",
    "generation": EACH + "{% generation %}{{ m.content|trim }}{% endgeneration %}{% endfor %}",
    "named tokens": "{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}{{ pad_token is defined }}",
    "tools": "{% if tools %}{{ tools[0].function.name }}{% else %}none{% endif %}{{ documents is none }}",
    "namespace": "{% set ns = namespace(n=0) %}" + EACH + "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "prompt": "{{ messages|length }}{% if add_generation_prompt %}<assistant>{% endif %}",
    "slices": "{{ messages[::-1][0].content }}{{ messages[0].content.split('.')[0].upper() }}",
}


def reference(template: str, tools: list[dict[str, Any]] | None) -> str:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    hugging = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>", chat_template=template
    )
    return str(hugging.apply_chat_template(CHAT, tools=tools, tokenize=False, add_generation_prompt=True))


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES.keys())
def test_it_renders_as_transformers_does(template: str, tools: list[dict[str, Any]]) -> None:
    pytest.importorskip("transformers")
    ours = ChatTemplate(template, tokens={"bos_token": "<s>", "eos_token": "</s>"}).render(CHAT, tools)
    assert ours == reference(template, tools or None)


def test_the_date_is_the_clock_that_was_given() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", now=lambda: datetime(2024, 7, 26, tzinfo=UTC))
    assert template.render(CHAT) == "26 Jul 2024"


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('roles: ' + messages[1].content) }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[9].content.no.such }}",
        "{{ 1 // 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ range(10000000) | list }}",
        "{{ messages[0].update({'role': 'x'}) }}",
    ],
)
def test_whatever_a_template_raises_is_one_refusal_that_quotes_nobody(template: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        ChatTemplate(template).render(CHAT)
    assert refused.value.field == "messages"
    assert refused.value.__cause__ is None
    assert "你好" not in str(refused.value)


def test_takes_tools_is_whether_the_template_reads_them() -> None:
    assert ChatTemplate("{% if tools %}x{% endif %}").takes_tools
    assert ChatTemplate("x", tool_use="{{ tools }}").takes_tools
    assert not ChatTemplate("{% set tools = 1 %}{{ tools }}").takes_tools
    assert not ChatTemplate("").takes_tools


def test_a_model_without_a_template_takes_no_chat() -> None:
    with pytest.raises(RequestInvalid, match="takes no chat"):
        ChatTemplate("").render(CHAT)


def folder_of(path: Path, settings: Mapping[str, Any], template: str | None = None) -> Path:
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    if template is not None:
        (path / "chat_template.jinja").write_text(template)
    return path


def test_the_file_beside_wins_over_the_settings(tmp_path: Path) -> None:
    settings = {"bos_token": {"content": "<s>", "special": True}, "eos_token": None, "chat_template": "old"}
    template = ChatTemplate.open(folder_of(tmp_path, settings, "{{ bos_token }}{{ eos_token }}new"))
    assert template.render(CHAT) == "<s>new"


def test_of_two_templates_the_one_for_tools_is_taken_with_tools(tmp_path: Path) -> None:
    named = [
        {"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "with {{ tools|length }}"},
    ]
    template = ChatTemplate.open(folder_of(tmp_path, {"chat_template": named}))
    assert template.render(CHAT) == "plain"
    assert template.render(CHAT, TOOLS) == "with 1"
    assert template.takes_tools


@pytest.mark.parametrize(
    ("settings", "template"), [({}, "{% if %}"), ({"chat_template": [{"name": "x"}]}, None), ([], None)]
)
def test_a_damaged_folder_is_a_model_error(tmp_path: Path, settings: Any, template: str | None) -> None:
    with pytest.raises(ModelError):
        ChatTemplate.open(folder_of(tmp_path, settings, template))


def test_a_folder_without_settings_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        ChatTemplate.open(tmp_path)
