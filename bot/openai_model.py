"""A model behind an OpenAI-compatible URL: one request in, a whole answer or a defined error out.

What fails in passing is tried again, a few times within a short while; what the server refuses
is not. How bytes become pieces is `bot/model_stream.py`'s, how a blocked read is woken
`bot/wire.py`'s. Neither texts nor keys are logged: a failed try is one line with its kind.

    refused connection, time-out, silence, 408 409 425 429, 5xx,     tried again, then ModelAway
    a stream that breaks, garbage, an empty answer
    401 403 404 and every other refusal                              ModelRefused
    a prompt that does not fit                                       ContextTooLong
    an answer withheld by a content filter                           one plain sentence, as answer
    a text past the limit, ours or the model's                       the text so far, then Cut
    the deadline, a cancelled turn                                   Stopped
"""

from __future__ import annotations

import logging
import math
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import tenacity

from bot import words
from bot.google_token import GoogleToken
from bot.model import (
    ContextTooLong,
    Cut,
    Model,
    ModelAway,
    ModelError,
    ModelRefused,
    Piece,
    Prompt,
    Reset,
    Text,
    ToolSpec,
)
from bot.model_stream import ANSWER_CHARS, Broken, Withheld, does_not_fit, read
from bot.stop import Stop

if TYPE_CHECKING:
    import openai

    from bot.wire import Watch

log = logging.getLogger(__name__)

TRIES = 4
"""Enough for a restart or a busy moment of the server; more would only add to its load."""
WINDOW_S = 45.0
"""All tries begin, and retries find their first word, within this: a person waits no longer."""
SILENCE_S = 60.0
"""The longest wait for the next piece; a model on a small machine reads a long prompt that long."""
PAUSE_S = 0.5
"""The first pause between tries; it doubles, with jitter."""
LONGEST_PAUSE_S = 8.0
LEAST_PATIENCE_S = 5.0
"""What a try that begins late in the window may still wait."""
LINGER_S = 2.0
"""How long to wait for the end of the stream once the answer is whole."""
DRAIN_S, DRAIN_BYTES = 0.2, 65_536
"""What reading to the end of a stream may cost that has said that it ended."""
ERROR_BYTES = 1_000_000
"""What the head of an answer and an error's body may come to."""

_PASSING = frozenset({408, 409, 425, 429})
_NO_TOOLS = re.compile(
    r"tools?\b.{0,60}\bnot (?:be )?support|not support.{0,40}\b(?:tool|function)"
    r"|tool choice requires|unsupported.{0,40}\btools?\b|--jinja",
    re.IGNORECASE | re.DOTALL,
)
"""How Ollama, vLLM and llama.cpp say that the model takes no tools."""
_KINDS = {
    "ConnectError": "no connection",
    "ConnectTimeout": "no connection in time",
    "ReadTimeout": "silence",
    "WriteTimeout": "request not taken in time",
    "RemoteProtocolError": "connection broken",
    "ReadError": "connection broken",
    "WriteError": "connection broken",
}


class OpenAIModel:
    """The client of one model; one pool of connections stays open until `close`.

    Args:
        url: the base URL, such as `http://127.0.0.1:11434/v1`.
        model: the model's name there.
        api_key: the bearer token or what gives it, asked before each try; '' sends none.
        tries: how often one request is tried.
        window_s: within which the tries begin, in seconds.
        silence_s: the longest wait for the next piece, in seconds.
        pause_s: the first pause between tries, in seconds.
        linger_s: the wait for the stream's end once the answer is whole, in seconds.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: Callable[[], str] | str = "",
        *,
        tries: int = TRIES,
        window_s: float = WINDOW_S,
        silence_s: float = SILENCE_S,
        pause_s: float = PAUSE_S,
        linger_s: float = LINGER_S,
    ) -> None:
        self._url = url
        self._model = model
        self._api_key = api_key
        self._tries = tries
        self._window_s = window_s
        self._silence_s = silence_s
        self._pause_s = pause_s
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._client: openai.OpenAI | None = None

    @property
    def name(self) -> str:
        """The model's name on its server."""
        return self._model

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        """Yields the answer; see `bot.model.Model`. An empty answer counts as a failed try."""
        told = False
        try:
            for piece in self._persist(prompt, tools, stop, may_be_empty=False):
                told = True
                yield piece
        except Withheld:
            if told:
                yield Reset()
            yield Text(words.ANSWER_WITHHELD)

    def complete(self, prompt: Prompt, stop: Stop) -> str:
        """The whole text of an answer without tools; an empty one is an answer too.

        Of a text that was cut, the last line is left out, as half a line may say the opposite.

        Raises:
            ModelAway: also when nothing whole is left of a cut text.
            ModelRefused: also when the answer was withheld.
            ContextTooLong, Stopped: as `stream`.
        """
        return _text_of(self._persist(prompt, (), stop, may_be_empty=True))

    def warm(self) -> None:
        """Makes the client now, so that the first answer does not wait for it."""
        self._opened()

    def close(self) -> None:
        """Closes the connections that are kept open."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    # -- tries ------------------------------------------------------------------------------

    def _persist(
        self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop, may_be_empty: bool
    ) -> Iterator[Piece]:
        """Tries until one try gives a whole answer."""
        told = False
        until = time.monotonic() + self._window_s
        for attempt in self._retrying(stop):
            with attempt:
                if told:
                    told = False
                    yield Reset()
                first = attempt.retry_state.attempt_number == 1
                left = max(LEAST_PATIENCE_S, until - time.monotonic())
                patience = self._silence_s if first else min(self._silence_s, left)
                for piece in self._try(prompt, tools, stop, may_be_empty, patience):
                    told = True
                    yield piece

    def _retrying(self, stop: Stop) -> tenacity.Retrying:
        return tenacity.Retrying(
            sleep=stop.wait,
            stop=tenacity.stop_after_attempt(self._tries)
            | tenacity.stop_before_delay(self._window_s),
            wait=self._pause,
            retry=tenacity.retry_if_exception_type(ModelAway),
            reraise=True,
        )

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Growing and jittered, and not shorter than what the server asked for."""
        grown = tenacity.wait_exponential_jitter(
            multiplier=self._pause_s, max=LONGEST_PAUSE_S, jitter=self._pause_s
        )(state)
        error = state.outcome.exception() if state.outcome else None
        return max(grown, error.pause if isinstance(error, Broken) else 0.0)

    def _try(
        self,
        prompt: Prompt,
        tools: Sequence[ToolSpec],
        stop: Stop,
        may_be_empty: bool,
        patience: float,
    ) -> Iterator[Piece]:
        """One request; whatever breaks because of `stop` is Stopped."""
        stop.check()
        try:
            yield from self._answer(prompt, tools, stop, may_be_empty, patience)
        except ModelError as error:
            stop.check()
            log.warning("a try of the model failed: %s", error)
            raise

    # -- one request ------------------------------------------------------------------------

    def _answer(
        self,
        prompt: Prompt,
        tools: Sequence[ToolSpec],
        stop: Stop,
        may_be_empty: bool,
        patience: float,
    ) -> Iterator[Piece]:
        from bot.wire import Watch, watched

        request = self._request(prompt, tools)
        watch = Watch(stop, patience, ERROR_BYTES)
        completions = self._opened().chat.completions.with_streaming_response
        with ExitStack() as stack:
            with _translated(), watched(watch):
                response = stack.enter_context(completions.create(**request))
            watch.room = math.inf

            def on_finish(ended: bool) -> None:
                watch.linger = min(DRAIN_S, self._linger_s) if ended else self._linger_s
                watch.room = DRAIN_BYTES if ended else math.inf

            content_type = str(response.headers.get("content-type") or "").lower()
            chunks = self._chunks(response.iter_bytes(), watch)
            yield from read(chunks, content_type, may_be_empty, on_finish)

    def _request(self, prompt: Prompt, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        import openai

        key = self._api_key if isinstance(self._api_key, str) else self._api_key()
        key = key.strip()
        if not (key.isascii() and key.isprintable()):
            raise ModelRefused("MODEL_API_KEY holds a character that no header can hold")
        request: dict[str, Any] = {
            "model": self._model,
            "messages": list(prompt),
            "stream": True,
            "extra_headers": {"Authorization": f"Bearer {key}" if key else openai.Omit()},
        }
        if tools:
            request["tools"] = [_shown(tool) for tool in tools]
        return request

    def _chunks(self, chunks: Iterator[bytes], watch: Watch) -> Iterator[bytes]:
        """The body as it comes.

        Raises:
            Broken: it broke off, or nothing came for too long.
            Stopped: the work has to end.
        """
        from bot.wire import watched

        while True:
            with _translated(), watched(watch):
                chunk = next(chunks, None)
            watch.stop.check()
            if chunk is None:
                return
            watch.silence = self._silence_s
            yield chunk

    def _opened(self) -> openai.OpenAI:
        with self._lock:
            if self._client is None:
                import openai

                from bot import wire

                self._client = openai.OpenAI(
                    base_url=self._url, api_key="none", max_retries=0, http_client=wire.client()
                )
            return self._client


def complete(model: Model, prompt: Prompt, stop: Stop) -> str:
    """A model's whole text for a prompt without tools; '' when it says that there is nothing.

    Raises:
        ModelError, Stopped: as `OpenAIModel.complete`.
    """
    if isinstance(model, OpenAIModel):
        return model.complete(prompt, stop)
    return _text_of(model.stream(prompt, (), stop))


def openai_model(url: str, model: str, api_key: str) -> OpenAIModel:
    """The model of these settings; without a key on Google Cloud, its own credentials serve."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if not api_key and (host == "googleapis.com" or host.endswith(".googleapis.com")):
        return OpenAIModel(url, model, GoogleToken())
    return OpenAIModel(url, model, api_key)


def _text_of(pieces: Iterator[Piece]) -> str:
    texts: list[str] = []
    cut = False
    for piece in pieces:
        if isinstance(piece, Reset):
            texts.clear()
        elif isinstance(piece, Text):
            texts.append(piece.delta)
        elif isinstance(piece, Cut):
            cut = True
    text = "".join(texts)
    if cut and not (text := text.rpartition("\n")[0]).strip():
        raise ModelAway("cut before a line was whole")
    return text


def _shown(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the form of the request."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


# -- what errors mean -----------------------------------------------------------------------


@contextmanager
def _translated() -> Iterator[None]:
    """Turns the errors of the libraries below into ours."""
    import httpx2
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise _meaning(error) from error
    except openai.APIConnectionError as error:
        raise Broken(_kind(error.__cause__ or error)) from error
    except openai.APIError as error:
        raise Broken(type(error).__name__) from error
    except (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError, OSError) as error:
        raise Broken(_kind(error)) from error
    except UnicodeEncodeError as error:
        raise ModelRefused("the prompt holds half a character") from error


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    return _KINDS.get(name, name)


def _meaning(error: openai.APIStatusError) -> ModelError:
    """What an error status of the server means."""
    status = error.status_code
    said = f"{error.code} {error.type} {error.body}"
    if status not in _PASSING and does_not_fit(said):
        return ContextTooLong(f"status {status}")
    if status in _PASSING or status >= 500:
        return Broken(f"status {status}", _retry_after(error.response.headers))
    if error.code == "content_filter":
        return Withheld(f"status {status}, content filter")
    if status in (400, 404, 422, 501) and _NO_TOOLS.search(said[:4_000]):
        log.error(
            "the model's server takes no tools (status %d): choose a MODEL that supports tool "
            "calls, or turn them on there (vLLM --enable-auto-tool-choice, llama.cpp --jinja)",
            status,
        )
        return ModelRefused(f"status {status}: no tools")
    return ModelRefused(f"status {status}")


def _retry_after(headers: Any) -> float:
    """Seconds to wait, from Retry-After as a number or a date (RFC 9110, 10.2.3); 0.0 without."""
    given = str(headers.get("retry-after") or "")
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except ValueError:
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


__all__ = ["ANSWER_CHARS", "OpenAIModel", "complete", "openai_model"]
