"""Access tokens of Google's application default credentials, for a model on Google Cloud.

Gives a token that is good for the next minutes, from whatever the machine is logged in with
(a key file, a user's login, the metadata server); knows nothing of models' requests.
Source: https://cloud.google.com/docs/authentication/application-default-credentials
"""

from __future__ import annotations

import threading
from typing import Any

from bot.model import ModelAway, ModelRefused

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_S = 20.0
"""The time-out of each request for a token."""


class GoogleToken:
    """Gives a token when called; found on the first call, refreshed when it is about to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._request: Any = None

    def __call__(self) -> str:
        """A token.

        Raises:
            ModelAway: the place that gives tokens cannot be reached now.
            ModelRefused: there are no credentials, or they are refused.
        """
        import google.auth
        from google.auth import exceptions

        try:
            with self._lock:
                if self._credentials is None:
                    self._request = _request()
                    self._credentials, _ = google.auth.default(
                        scopes=[SCOPE], request=self._request
                    )
                if not self._credentials.valid:
                    self._credentials.refresh(self._request)
                return str(self._credentials.token)
        except exceptions.TransportError as error:
            raise ModelAway("no Google token: not reached") from error
        except exceptions.GoogleAuthError as error:
            kind = ModelAway if getattr(error, "retryable", False) else ModelRefused
            raise kind(f"no Google token: {type(error).__name__}") from error


def _request() -> Any:
    """How google-auth reaches its servers, with our time-out in the place of its 120 s."""
    from google.auth.transport.requests import Request

    plain: Any = Request()

    def short(*given: Any, timeout: float | None = None, **named: Any) -> Any:
        return plain(*given, timeout=min(TOKEN_S, timeout or TOKEN_S), **named)

    return short
