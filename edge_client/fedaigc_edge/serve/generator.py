"""Generate with ORT-GenAI under one pinned adapter: tokens in, pieces of whole text out.

The runtime holds Python's interpreter lock while it computes, so long prompts go in chunks: other threads,
the HTTP face among them, get their turn after each, and a cancelled request ends there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedaigc.canonical import Json
from fedaigc.errors import Busy, ModelError, RequestInvalid
from fedaigc_edge.model.quiet_runtime import quiet_runtimes
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.serve.detokeniser import Detokeniser, TokenBytes
from fedaigc_edge.serve.request import ChatMessage, ContextTooLong

PREFILL_CHUNK = 64
"""Tokens of a prompt computed at once: a pause of about 0.1 s on a small core, and no slower than all
together."""
MAX_SEED = 2**31
"""The runtime takes 31 bits of a seed; larger ones are folded."""
_BREAK = "\ue0f1\ue0f2\ue0f1"


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Temperature 0 takes the likeliest; top_k 0 and top_p 1 mean no limit."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None


@dataclass(frozen=True)
class Piece:
    """What one or more tokens added: `text` may be "" while a character is unfinished; `repr` does not show
    it.

    The last piece of an answer has `finish`: "stop" (the model ended), "length" or "cancelled".
    """

    text: str = field(repr=False)
    tokens: int
    finish: str | None = None


class AdapterHost(Protocol):
    """What keeps adapters loaded by name."""

    def load_adapter(self, name: str, path: Path) -> None:
        """Load an `.onnx_adapter` file under a new name. Raises ModelError."""
        ...

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Raises Busy while an answer uses it."""
        ...


class Generator(AdapterHost, Protocol):
    """A loaded model; every method may be called from any thread."""

    base_model: str
    context_length: int

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt's tokens, chat template applied; special tokens in a message's text are plain text.

        Raises RequestInvalid with field "messages".
        """
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of plain text, nothing added. Raises RequestInvalid for text that no model can read."""
        ...

    def generate(
        self, prompt: Sequence[int], sampling: Sampling, adapter: str | None, cancelled: threading.Event
    ) -> Iterator[Piece]:
        """Generate until the model ends, `max_tokens` are made or `cancelled` is set; blocks between pieces.

        Raises ContextTooLong at once when prompt and answer do not fit, ModelError when the runtime fails.
        """
        ...


class GenaiGenerator:
    """One model in ORT-GenAI. Each answer has its own state; weights are shared.

    Args:
        model: an exported model whose hashes were checked.
        threads: for one computation; 0 takes the number of physical cores. Hyper-threads make it slower.
    """

    def __init__(self, model: ModelFolder, threads: int = 0) -> None:
        quiet_runtimes()
        import onnxruntime_genai as og

        self.base_model = model.base_model
        self._tokens = TokenBytes.load(model.onnx)
        settings = _read_settings(model.onnx)
        self.context_length: int = settings["context_length"]
        self._vocabulary: int = settings["vocab_size"]
        ends = settings["eos_token_id"]
        self._ends = frozenset(ends if isinstance(ends, list) else [ends])
        self._lock = threading.Lock()
        self._og = og
        try:
            config = og.Config(str(model.onnx))
            if threads:
                options = {"session_options": {"intra_op_num_threads": threads}}
                config.overlay(json.dumps({"model": {"decoder": options}}))
            self._model: Any = og.Model(config)
            self._tokenizer: Any = og.Tokenizer(self._model)
            # A chat template writes the begin-of-text token itself.
            self._tokenizer.update_options(add_special_tokens="false")
            self._adapters: Any = og.Adapters(self._model)
        except (RuntimeError, OSError) as error:
            raise _failed("The model cannot be loaded", error) from error
        self._loaded: set[str] = set()

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """See Generator."""
        items = [
            {"role": message.role, "content": self._disarmed(_readable(message.content))}
            for message in messages
        ]
        text = json.dumps(items, ensure_ascii=False)
        with self._lock:
            try:
                prompt: str = self._tokenizer.apply_chat_template(text, add_generation_prompt=True)
            except RuntimeError:
                # The runtime's message may quote the conversation.
                raise RequestInvalid(
                    "The model's chat template cannot take these messages",
                    "it may want user and assistant to take turns, or know no such role",
                    "change the order or the roles",
                    field="messages",
                ) from None
            return [int(token) for part in prompt.split(_BREAK) for token in self._encode(part)]

    def encode(self, text: str) -> list[int]:
        """See Generator."""
        parts = self._disarmed(_readable(text)).split(_BREAK)
        with self._lock:
            return [int(token) for part in parts for token in self._encode(part)]

    def generate(
        self, prompt: Sequence[int], sampling: Sampling, adapter: str | None, cancelled: threading.Event
    ) -> Iterator[Piece]:
        """See Generator."""
        if not prompt:
            raise RequestInvalid("The prompt is empty", "", "send at least one message", field="messages")
        if len(prompt) + max(1, sampling.max_tokens) > self.context_length:
            raise ContextTooLong(
                "The messages are too long for this model",
                f"{len(prompt)} tokens and {sampling.max_tokens} for the answer; {self.context_length} fit",
                "shorten the messages or lower max_tokens",
                field="messages",
            )
        if adapter is not None and adapter not in self._loaded:
            raise ModelError(f"No adapter {adapter} is loaded", "it was unloaded", "ask again")
        return self._pieces(list(prompt), sampling, adapter, cancelled)

    def load_adapter(self, name: str, path: Path) -> None:
        """See AdapterHost."""
        with self._lock:
            if name in self._loaded:
                raise ModelError(f"An adapter {name} is loaded already", "", "unload it first")
            try:
                self._adapters.load(str(path), name)
            except RuntimeError as error:
                raise _failed(f"The adapter {path.name} cannot be loaded", error) from error
            self._loaded.add(name)

    def unload_adapter(self, name: str) -> None:
        """See AdapterHost."""
        with self._lock:
            if name not in self._loaded:
                return
            try:
                self._adapters.unload(name)
            except RuntimeError as error:
                raise Busy(f"The adapter {name} is in use", "an answer needs it", "try again") from error
            self._loaded.discard(name)

    def _pieces(
        self, prompt: list[int], sampling: Sampling, adapter: str | None, cancelled: threading.Event
    ) -> Iterator[Piece]:
        detokeniser = Detokeniser(self._tokens)
        made = 0
        try:
            state = self._start(len(prompt), sampling, adapter)
            for start in range(0, len(prompt), PREFILL_CHUNK):
                if cancelled.is_set():
                    break
                state.append_tokens(prompt[start : start + PREFILL_CHUNK])
            while not cancelled.is_set():
                state.generate_next_token()
                token = int(state.get_next_tokens()[0])
                made += 1
                if token in self._ends:
                    yield Piece(detokeniser.end(), 1, "stop")
                    return
                text = detokeniser.feed(token)
                if made >= sampling.max_tokens:
                    yield Piece(text + detokeniser.end(), 1, "length")
                    return
                yield Piece(text, 1)
        except RuntimeError as error:
            raise _failed("Generation failed", error) from error
        yield Piece(detokeniser.end(), 0, "cancelled")

    def _start(self, prompt_tokens: int, sampling: Sampling, adapter: str | None) -> Any:
        parameters = self._og.GeneratorParams(self._model)
        # The runtime reserves memory for max_length at once: the whole context would be 377 MB here.
        options: dict[str, Any] = {"max_length": prompt_tokens + max(1, sampling.max_tokens)}
        if sampling.temperature > 0:
            options |= {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p}
            options["top_k"] = min(sampling.top_k, self._vocabulary)
            if sampling.seed is not None:
                options["random_seed"] = sampling.seed % MAX_SEED
        else:
            options["do_sample"] = False
        parameters.set_search_options(**options)
        state = self._og.Generator(self._model, parameters)
        if adapter is not None:
            with self._lock:
                state.set_active_adapter(self._adapters, adapter)
        return state

    def _encode(self, text: str) -> Sequence[int]:
        tokens: Sequence[int] = self._tokenizer.encode(text) if text else []
        return tokens

    def _disarmed(self, text: str) -> str:
        """`text` with every special token's spelling broken in two, so that no caller can forge a turn."""
        for special in self._tokens.special:
            text = text.replace(special, special[:1] + _BREAK + special[1:])
        return text


def _readable(text: str) -> str:
    # The runtime's tokenizer reads C strings: it would stop at a NUL without a word.
    if "\0" in text or not _is_utf8(text):
        raise RequestInvalid(
            "A message holds a character that no model can read",
            "a NUL or half of a surrogate pair",
            "remove it",
            field="messages",
        )
    return text.replace(_BREAK, "")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_settings(folder: Path) -> Mapping[str, Json]:
    try:
        settings: Mapping[str, Json] = json.loads((folder / "genai_config.json").read_bytes())["model"]
    except (OSError, ValueError, KeyError) as error:
        raise _failed("The model's settings cannot be read", error) from error
    return settings


def _failed(what: str, error: Exception) -> ModelError:
    return ModelError(what, f"{type(error).__name__}: {str(error)[:200]}", "run: fedaigc-edge model export")
