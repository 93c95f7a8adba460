"""What an operator enters in Google's console, and whether each step of it has come about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bot.chat.client import Client
from bot.chat.errors import ChatError, CredentialsRefused
from bot.chat.route import PATH
from bot.chat.verify import Certificates, CertificatesAway, certificates_url
from bot.commands import COMMAND_IDS
from bot.settings import Settings

ABOUT = {
    "help": "What Mercury understands",
    "new": "Begin a new conversation",
    "memory": "What Mercury remembers",
    "forget": "Make Mercury forget",
    "recap": "What was said last, in short",
    "web": "A link to the web pages",
    "stop": "Stop what Mercury is doing",
}
REACH_S = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """How a step stands: `ok`, and what was found or what to do."""

    name: str
    ok: bool
    says: str


def endpoint(settings: Settings) -> str:
    """The URL that Google posts events to, as far as the settings say it."""
    if settings.google_chat_audience:
        return settings.google_chat_audience
    return f"{settings.public_url.rstrip('/')}{PATH}" if settings.public_url else ""


def console(settings: Settings) -> str:
    """What to enter at console.cloud.google.com, as Markdown."""
    form = settings.google_chat_format or "addon"
    url = endpoint(settings) or f"https://<your host>{PATH}"
    project = settings.google_chat_project_number or "<its project number>"
    audience = "HTTP endpoint URL" if form == "addon" else "Project number"
    commands = "\n".join(f"   {id_}  /{name:<7} {ABOUT[name]}" for id_, name in COMMAND_IDS.items())
    return f"""In the console of project {project}:

1. APIs & Services: enable "Google Chat API".
2. IAM & Admin, Service accounts: one for Mercury. Either download a key and name it in
   GOOGLE_APPLICATION_CREDENTIALS, or run Mercury as that account (application default
   credentials). It needs no role for Chat.
3. Google Chat API, Configuration:
   App name, avatar URL, description   as you like
   {
        "Build as a Workspace add-on         checked"
        if form == "addon"
        else "Build as a Workspace add-on         not checked (an app of the older kind)"
    }
   Interactive features                on
   Functionality                       join spaces and group conversations
   Connection settings                 HTTP endpoint URL, the same for all triggers:
                                       {url}
   Authentication audience             {audience}
   Visibility                          the people or groups who may use it
4. In the same place, one command each (type: slash command, or quick command):
{commands}"""


def checks(settings: Settings) -> Iterator[Check]:
    """Tries each step that can be tried from here, in order."""
    if not settings.google_chat_format:
        yield Check(
            "settings", False,
            "set GOOGLE_CHAT_FORMAT to addon (new apps) or classic, and what goes with it",
        )  # fmt: skip
        return
    yield Check("settings", True, f"format {settings.google_chat_format}, "
                f"project {settings.google_chat_project_number}, "
                f"audience {settings.google_chat_audience or 'the project number'}")  # fmt: skip
    yield _credentials(settings)
    yield _certificates(settings)
    yield _reached(settings)


def _credentials(settings: Settings) -> Check:
    client = Client(settings.google_chat_api_url, settings.google_application_credentials)
    try:
        account = client.check()
    except CredentialsRefused:
        where = settings.google_application_credentials
        told = f"{where} is refused" if where else "there are no application default credentials"
        return Check("credentials", False, f"{told}: see step 2")
    except ChatError as error:
        return Check("credentials", False, f"Google's token endpoint cannot be reached: {error}")
    finally:
        client.close()
    return Check("credentials", True, f"a token for {account or 'the default account'}")


def _certificates(settings: Settings) -> Check:
    form = settings.google_chat_format
    assert form in ("addon", "classic")
    url = settings.google_chat_certs_url or certificates_url(form)
    try:
        keys = Certificates(url).get("")
    except CertificatesAway:
        return Check(
            "certificates", False, f"{url} cannot be reached: events could not be verified"
        )
    return Check("certificates", True, f"{len(keys)} keys from {url}")


def _reached(settings: Settings) -> Check:
    """Whether an unsigned request to the endpoint meets this Mercury's refusal."""
    import requests

    url = endpoint(settings)
    if not url:
        return Check("endpoint", False, "set PUBLIC_URL to how Mercury is reached from outside")
    try:
        status = requests.post(url, json={}, timeout=REACH_S, allow_redirects=False).status_code
    except requests.RequestException as error:
        return Check("endpoint", False, f"{url} cannot be reached: {type(error).__name__}")
    if status != 401:
        told = f"{url} answers an unsigned request with {status}, not with Mercury's 401"
        return Check("endpoint", False, f"{told}: is Mercury behind it, with these settings?")
    return Check("endpoint", True, f"{url} refuses unsigned requests, as it should")
