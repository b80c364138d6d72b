"""A model's chat template: conversation in, one prompt text out, as Hugging Face transformers renders it.

Templates come with models, so they are programs that strangers wrote: they run in Jinja's sandbox, and
whatever they raise is one refusal that quotes nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import ModelError, RequestInvalid, VerificationFailed

SETTINGS_FILE = "tokenizer_config.json"
TEMPLATE_FILE = "chat_template.jinja"
MAX_SETTINGS_BYTES = 4 << 20
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ChatTemplate:
    """A compiled template; rendering is thread-safe.

    Args:
        default: the template's text; "" for a model that has none, which takes no chat.
        tool_use: the one to take when a request brings tools, where the model has two.
        tokens: the special tokens that the template may name, such as `bos_token`.
        now: what `strftime_now` reads, which some templates date the conversation with.
    """

    def __init__(
        self,
        default: str,
        tool_use: str | None = None,
        tokens: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        environment = _environment(now)
        try:
            self._default = environment.from_string(default) if default else None
            self._tool_use = environment.from_string(tool_use) if tool_use else self._default
            sources = [environment.parse(text) for text in (default, tool_use or "")]
        except jinja2.TemplateError as error:
            raise ModelError(
                "The model's chat template cannot be read",
                f"{type(error).__name__}",
                "export the model again",
            ) from error
        self._tokens = dict(tokens or {})
        self.takes_tools = any("tools" in meta.find_undeclared_variables(source) for source in sources)

    @classmethod
    def open(cls, folder: Path, now: Callable[[], datetime] = datetime.now) -> ChatTemplate:
        """The template of an exported model's folder. Raises ModelError."""
        try:
            settings = parse_record((folder / SETTINGS_FILE).read_bytes(), MAX_SETTINGS_BYTES)
            beside = folder / TEMPLATE_FILE
            named = _templates(
                beside.read_text("utf-8") if beside.exists() else settings.get("chat_template")
            )
        except (OSError, UnicodeDecodeError, VerificationFailed, KeyError, TypeError) as error:
            raise ModelError(
                f"{folder / SETTINGS_FILE} cannot be used", type(error).__name__, "export the model again"
            ) from error
        tokens = {name: _token_text(settings[name]) for name in _NAMED_TOKENS if settings.get(name)}
        return cls(named.get("default", ""), named.get("tool_use"), tokens, now)

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The prompt's text, ending where the assistant's answer begins.

        Raises RequestInvalid with field "messages" for whatever the template refuses.
        """
        template = self._tool_use if tools else self._default
        if template is None:
            raise RequestInvalid(
                "This model takes no chat",
                "it has no chat template",
                "send a plain prompt to /v1/completions",
                field="messages",
            )
        try:
            return template.render(
                messages=messages,
                tools=tools or None,
                documents=None,
                add_generation_prompt=True,
                **self._tokens,
            )
        except Exception:
            # Its message may quote the conversation, and a template can fail in any way a program can.
            raise RequestInvalid(
                "The model's chat template cannot take these messages",
                "it may want user and assistant to take turns, or know no such role",
                "change the order or the roles",
                field="messages",
            ) from None


class _GenerationTag(Extension):
    """`{% generation %}` marks what an assistant said, for training; here only its content counts."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration is a plain set

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment(now: Callable[[], datetime]) -> ImmutableSandboxedEnvironment:
    def strftime_now(form: str) -> str:
        return now().strftime(form)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes for HTML, which models have not been trained on.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _templates(found: Json) -> dict[str, str]:
    """By name: models carry one template, or a list of `{"name": ..., "template": ...}`."""
    if found is None or isinstance(found, str):
        return {"default": found or ""}
    return {item["name"]: item["template"] for item in found}


def _token_text(value: Json) -> str:
    return str(value["content"] if isinstance(value, dict) else value)
