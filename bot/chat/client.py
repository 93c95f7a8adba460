"""One request to the Chat API: connections, tokens, and what each failure means.

Nothing is loaded, read or connected before the first call; connections are kept open. Safe for
many threads: a connection is used by one at a time. The drivers' own errors never leave this
module, nor do their texts: they may hold a token.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from bot.chat.errors import (
    ChatError,
    CredentialsRefused,
    Limited,
    NotAllowed,
    NotThere,
    Rejected,
    Taken,
    TooBig,
    TooLong,
    Unavailable,
)

SCOPE = "https://www.googleapis.com/auth/chat.bot"
API_URL = "https://chat.googleapis.com"
TIMEOUT_S = 20.0
IDLE_CONNECTIONS = 16
PIECE_BYTES = 65_536

_TOO_LONG = re.compile(
    r"too (?:long|large)|longer than|exceeds? .{0,40}(?:limit|length|size)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Resources:
    """The two parts of the API that are used, as googleapiclient makes them."""

    messages: Any
    media: Any


class Client:
    """The API's driver.

    Args:
        url: the API's address, empty for Google's; tokens come from where the credentials say.
        key_file: a service account's key; None for application default credentials.
        timeout_s: seconds that one request may be silent.
        now: seconds since the epoch, for a `Retry-After` that is a date.
    """

    def __init__(
        self,
        url: str = "",
        key_file: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._key_file = key_file
        self._url = (url or API_URL).rstrip("/") + "/"
        self._timeout_s = timeout_s
        self._now = now
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._api: _Resources | None = None
        self._idle: deque[Any] = deque()
        self._closed = False

    def run(self, call: Callable[[Any], Any]) -> Mapping[str, Any]:
        """Makes one request and gives what the API told.

        Args:
            call: makes the request of the API's messages, as googleapiclient describes them.

        Raises:
            ChatError: a kind that the status decides.
        """
        from google_auth_httplib2 import AuthorizedHttp
        from googleapiclient.errors import HttpError

        request = call(self._service().messages)
        with self._translated(), self._connection() as connection:
            authorized = AuthorizedHttp(
                self._ready(connection), http=connection, max_refresh_attempts=1
            )
            try:
                told = request.execute(http=authorized, num_retries=0)
            except HttpError as error:
                told = self._error(
                    int(error.resp.status), error.reason or "", error.resp.get("retry-after")
                )
        if isinstance(told, ChatError):
            raise told
        if not isinstance(told, Mapping):
            raise Unavailable("an answer that is no message")
        return told

    def download(self, resource: str, most: int, check: Callable[[], None] = lambda: None) -> bytes:
        """The content of an attachment, read piece by piece.

        Args:
            resource: its `attachmentDataRef.resourceName`, which has to be safe in an address.
            most: bytes; a bigger one is not read to its end.
            check: called before each piece; what it raises ends the reading.

        Raises:
            TooBig: it is bigger.
            ChatError: another kind that the status decides.
        """
        import requests

        address = self._service().media.download_media(resourceName=resource).uri
        with self._translated(), self._connection() as connection:
            for again in (True, False):
                token = self._ready(connection).token
                answer = requests.get(
                    address, headers={"Authorization": f"Bearer {token}"}, stream=True,
                    timeout=self._timeout_s, allow_redirects=False,
                )  # fmt: skip
                with answer:
                    if answer.status_code == 200:
                        return _read(answer.iter_content(PIECE_BYTES), most, check)
                    if answer.status_code == 401 and again:
                        self._forget_token(token)
                        continue
                    raise self._error(
                        answer.status_code, answer.reason, answer.headers.get("Retry-After")
                    )
        raise CredentialsRefused("401")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The edge to the drivers: their errors become ours."""
        import httplib2
        from google.auth import exceptions as auth

        try:
            yield
        except ChatError:
            raise
        except auth.TransportError:
            raise Unavailable("the token endpoint cannot be reached") from None
        except auth.GoogleAuthError as error:
            if getattr(error, "retryable", False):
                raise Unavailable("the token endpoint is away") from None
            raise CredentialsRefused("no token is to be had") from None
        except (OSError, http.client.HTTPException, httplib2.HttpLib2Error) as error:
            raise Unavailable(f"no answer: {type(error).__name__}") from None
        except (ValueError, AttributeError, TypeError, KeyError):
            # What the drivers raise when an answer is no JSON, or not of the expected shape.
            raise Unavailable("an answer that makes no sense") from None

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection that is kept open and free, or a new one; a broken one is not kept."""
        import httplib2

        try:
            connection = self._idle.pop()
        except IndexError:
            connection = httplib2.Http(timeout=self._timeout_s)
            connection.follow_redirects = False  # or the token would go where an answer points
        sound = False
        try:
            yield connection
            sound = True
        finally:
            if sound and not self._closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
            else:
                connection.close()

    def warm(self) -> None:
        """Reads the API's description now, so that the first answer does not wait for it."""
        self._service()

    def check(self) -> str:
        """Whether a token is to be had; returns whose it is.

        Raises:
            CredentialsRefused, Unavailable: as `run`.
        """
        with self._translated(), self._connection() as connection:
            credentials = self._ready(connection)
            return str(getattr(credentials, "service_account_email", "") or "")

    def close(self) -> None:
        """Closes the connections that are kept open; one that is in use is closed after it."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _service(self) -> _Resources:
        """The API as the package describes it, read once; its methods are dear to make."""
        with self._lock:
            if self._api is None:
                import httplib2
                from googleapiclient import discovery

                service = discovery.build(
                    "chat",
                    "v1",
                    http=httplib2.Http(timeout=self._timeout_s),
                    static_discovery=True,
                    cache_discovery=False,
                    client_options={"api_endpoint": self._url},
                )
                self._api = _Resources(service.spaces().messages(), service.media())
            return self._api

    def _ready(self, connection: Any) -> Any:
        """Credentials with a token; one thread at a time fetches it."""
        from google_auth_httplib2 import Request

        with self._lock:
            if self._credentials is None:
                self._credentials = _credentials(self._key_file)
            if not self._credentials.valid:
                self._credentials.refresh(Request(connection))
            return self._credentials

    def _forget_token(self, token: str) -> None:
        """Has a token that was refused fetched anew, unless somebody else did so already."""
        with self._lock:
            if self._credentials is not None and self._credentials.token == token:
                self._credentials.token = None

    def _error(self, status: int, reason: str, retry_after: str | None) -> ChatError:
        """The kind of an HTTP error; its text is Google's short reason and no more."""
        why = f"{status} {reason}".strip()[:200]
        if status == 429:
            return Limited(_seconds(retry_after, self._now()))
        if status >= 500 or status == 408:
            return Unavailable(why)
        if status == 413 or (status == 400 and _TOO_LONG.search(why)):
            return TooLong(why)
        kinds: dict[int, type[ChatError]] = {
            401: CredentialsRefused,
            403: NotAllowed,
            404: NotThere,
            409: Taken,
        }
        return kinds.get(status, Rejected)(why)


def _read(pieces: Iterator[bytes], most: int, check: Callable[[], None]) -> bytes:
    read = bytearray()
    for piece in pieces:
        check()
        read += piece
        if len(read) > most:
            raise TooBig(f"more than {most} bytes")
    return bytes(read)


def _credentials(key_file: Path | None) -> Any:
    if key_file is None:
        import google.auth

        credentials, _project = google.auth.default(scopes=[SCOPE])
        return credentials
    from google.auth.exceptions import MalformedError
    from google.oauth2.service_account import Credentials

    try:
        return Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            str(key_file), scopes=[SCOPE]
        )
    except (OSError, ValueError, KeyError, TypeError, MalformedError):
        raise CredentialsRefused("the key file cannot be read") from None


def _seconds(header: str | None, now: float) -> float | None:
    """A `Retry-After`, seconds or an HTTP date (RFC 9110 §10.2.3); None for anything else."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,6}", header.strip()):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
