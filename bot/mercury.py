"""Builds everything: the one place that names concrete stores, models and channels.

It builds and opens nothing: files are opened when they are first used, and threads start with
`Mercury.start`, once a worker has taken its place.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot import logs, trials
from bot.afterwards import Afterwards
from bot.attempt import Attempts, Leaving
from bot.bus import Bus, RedisBus
from bot.clock import clock_from
from bot.command_answers import CommandAnswers
from bot.confirm import fingerprint
from bot.delivery import Delivery
from bot.engine import DRAIN_S, Engine, Limits
from bot.markdown import host_of
from bot.material import Materials
from bot.model import Model, ModelError, RemoteModel
from bot.notes import Notes
from bot.prompt import PERSONA
from bot.relay import RedisRelay, Relay
from bot.settings import Settings, SettingsError
from bot.settling import Action, Settling
from bot.stop import Stop, Stopped
from bot.streams import Streams
from bot.tools import Tool, Toolbox, archive_tools
from bot.version import VERSION
from bot.wiki_tools import wiki_tools
from bot.wiki_words import WikiWords
from memory.accepting import Accepting
from memory.archive import Archive
from memory.clock import Clock
from memory.confirmations import Confirmations
from memory.database import Database, SqliteDatabase
from memory.deliveries import Deliveries
from memory.errors import Refused, StoreDown, WrongSchema
from memory.histories import Histories
from memory.ids import Ids, random_id
from memory.mirror import Mirror, NoMirror, RedisMirror
from memory.processes import Process, Processes
from memory.redis_link import RedisLink
from memory.schema import migrate, pending
from memory.summaries import DigestSummariser, ModelSummariser, Summariser, SummaryFailed
from memory.summarising import Summarising
from memory.tokens import Tokens
from memory.turns import Turns
from memory.waiting_notes import WaitingNotes
from wiki.remote import Remote
from wiki.vault import Vault

log = logging.getLogger(__name__)

LOOKED_AT_FIRST_BYTES = 64 * 1024 * 1024
"""An archive up to this size (about 200,000 messages) is looked through before it is used."""
OTHERS_S, OTHERS_LOOK_S = 12.0, 0.5
"""A predecessor that was killed counts as alive for ten seconds."""
SUMMARY_S = 60.0
"""How long a summary of one segment may take."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The archive's parts; what `mfw` works with beside the server."""

    database: Database
    clock: Clock
    archive: Archive
    accepting: Accepting
    turns: Turns
    confirmations: Confirmations
    deliveries: Deliveries
    processes: Processes
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Shared:
    """What several processes have together beside the archive, or what stands in for it."""

    link: RedisLink | None
    mirror: Mirror
    bus: Bus
    relay: Relay


@dataclass(slots=True)
class Mercury:
    """A whole Mercury, built and not yet started."""

    settings: Settings
    stores: Stores
    histories: Histories
    summarising: Summarising
    model: Model
    streams: Streams
    settling: Settling
    engine: Engine
    chat: Mapping[str, Delivery]
    shared: Shared
    notes: Notes
    started: bool = False
    trouble: str = ""
    """Why the last start failed."""

    def start(self) -> None:
        """Opens the archive and begins to work; may be called again until it succeeds.

        Raises:
            StoreDown: the archive cannot be used now.
            WrongSchema: it was written by a newer version.
        """
        if self.started:
            return
        try:
            self._look_through()
            migrate(self.stores.database)
            check_secret(self.stores.database, instance_secret(self.settings))
            if self.shared.link is not None:
                self.shared.link.check()
            self._wait_for_others()
            self.engine.start()
            self.notes.start()
        except (StoreDown, WrongSchema) as error:
            self.trouble = str(error)
            raise
        except Refused as error:
            raise SettingsError(f"REDIS_URL: {error}") from error
        self.started = True

    def _wait_for_others(self) -> None:
        """Waits for those that cannot serve beside this one: a predecessor may just be ending.

        Raises:
            SettingsError: another process serves from the same archive, and what it would have to
                share with this one is not set.
        """
        if self.settings.database_url is None:
            return  # the lock of the data folder says that they are dead
        if not self.settings.is_shared:
            self._wait_out(lambda _: True, "several processes need REDIS_URL as well")
        elif not self.settings.wiki_remote:
            here = socket.gethostname()
            why = "several machines need WIKI_REMOTE, or their notes would differ"
            self._wait_out(lambda one: one.host != here, why)

    def _wait_out(self, is_stranger: Callable[[Process], bool], why: str) -> None:
        until = time.monotonic() + OTHERS_S
        while others := [x for x in self.stores.processes.all() if x.alive and is_stranger(x)]:
            if time.monotonic() > until:
                raise SettingsError(
                    f"process {others[0].pid} on {others[0].host} serves from this database: {why}"
                )
            time.sleep(OTHERS_LOOK_S)

    def _look_through(self) -> None:
        """Looks for damage before anything is written; a large archive is looked at meanwhile."""
        database = self.stores.database
        if not isinstance(database, SqliteDatabase) or not database.path.exists():
            return
        if database.path.stat().st_size > LOOKED_AT_FIRST_BYTES:
            threading.Thread(target=_look_meanwhile, args=(database,), daemon=True).start()
        elif damage := database.check():
            raise StoreDown(damage)

    def warm(self) -> None:
        """Prepares what a first answer would otherwise wait for; needs no network."""
        for delivery in self.chat.values():
            delivery.warm()
        if isinstance(self.model, RemoteModel):
            self.model.warm()

    def stop(self, seconds: float = DRAIN_S) -> None:
        """Ends in order; see `Engine.drain`."""
        self.engine.drain(seconds)

    def close(self) -> None:
        """Frees threads and connections."""
        self.engine.close()
        for delivery in self.chat.values():
            delivery.close()
        if isinstance(self.model, RemoteModel):
            self.model.close()
        self.notes.close()
        self.shared.mirror.close()
        self.shared.relay.close()
        if self.shared.link is not None:
            self.shared.link.close()
        self.stores.database.close()

    def not_ready(self) -> str:
        """Why no traffic can be taken, or '' when it can."""
        if self.engine.ending:
            return "ending"
        if not self.started:
            return self.trouble or "starting"
        try:
            self.stores.archive.check()
        except StoreDown as error:
            return str(error)
        return ""


def _look_meanwhile(database: SqliteDatabase) -> None:
    """The edge of that thread; what it finds, every later call says."""
    try:
        damage = database.check()
    except StoreDown as error:
        log.error("the archive could not be looked through: %s", error)
    else:
        if damage:
            log.critical("%s", damage)


def open_stores(
    settings: Settings, clock: Clock | None = None, ids: Ids = random_id, create: bool = True
) -> Stores:
    """The archive of these settings, for the server and for `mfw` beside it."""
    settings.mercury_data.mkdir(parents=True, exist_ok=True)
    database = database_of(settings, create)
    clock = clock or clock_from(settings)
    return Stores(
        database,
        clock,
        Archive(database, clock, ids, settings.history_max_chars),
        Accepting(database, clock, ids, settings.session_idle_timeout_ms),
        Turns(database, clock, ids),
        Confirmations(database, clock, ids),
        Deliveries(database),
        Processes(database),
        Tokens(database, clock, ids),
    )


def database_of(settings: Settings, create: bool = True) -> Database:
    """Where the archive is: a PostgreSQL server, or the file in the data folder."""
    if settings.database_url is None:
        return SqliteDatabase(settings.archive_path, create=create)
    from memory.postgres import PostgresDatabase

    return PostgresDatabase(settings.database_url.get_secret_value())


def build(
    settings: Settings,
    *,
    model: Model | None = None,
    summariser: Summariser | None = None,
    clock: Clock | None = None,
    ids: Ids = random_id,
    tools: Sequence[Tool] = (),
    actions: Mapping[str, Action] | None = None,
    alone: bool | None = None,
) -> Mercury:
    """A Mercury of these settings.

    Args:
        model, summariser, clock, ids: replace what the settings would give.
        tools, actions: beside Mercury's own.
        alone: whether no other process can serve this archive; else as the settings say.
    """
    trials.configure(settings.mercury_test_stop_at, settings.mercury_data)
    stores = open_stores(settings, clock, ids)
    secret = instance_secret(settings)
    logs.redact.add(secret.decode())
    answering = model or model_of(settings)
    describing = summariser or summariser_of(answering)
    process = ids("p_")
    shared = shared_of(settings, secret, process)
    histories = Histories(stores.archive, stores.clock, mirror=shared.mirror)
    summarising = Summarising(
        stores.database, stores.clock, ids, describing, settings.history_max_chars, trials.stop_at
    )
    streams = Streams(shared.relay)
    vault = vault_of(settings, stores.clock)
    notes = Notes(
        vault,
        remote_of(settings, vault, stores.clock),
        WaitingNotes(stores.database, stores.clock, ids) if settings.is_shared else None,
        settings.mercury_test_clock is not None,
    )
    doing = {**notes.actions(), **(actions or {})}
    settling = Settling(stores.confirmations, doing, secret, stores.clock, trials.stop_at)
    chat, materials = chat_of(settings, stores, settling)
    attempts = Attempts(
        stores.archive,
        histories,
        stores.turns,
        stores.confirmations,
        answering,
        Toolbox([*archive_tools(stores.archive), *wiki_tools(notes, stores.clock), *tools]),
        stores.clock,
        persona_of(settings),
        settings.history_max_chars,
        Leaving(
            (*settings.secret_values(), secret.decode()), link_hosts(settings), settling.guarded
        ),
        materials,
        notes.titles,
        trials.stop_at,
    )
    engine = Engine(
        accepting=stores.accepting,
        turns=stores.turns,
        attempts=attempts,
        commands=CommandAnswers(stores.archive),
        histories=histories,
        afterwards=Afterwards(
            stores.archive, histories, summarising, settings.session_idle_timeout_ms
        ),
        processes=stores.processes,
        streams=streams,
        deliveries=chat,
        limits=Limits(
            settings.turn_timeout_s,
            settings.mercury_test_clock is not None,
        ),
        process=process,
        version=VERSION,
        alone=settings.database_url is None if alone is None else alone,
        bus=shared.bus,
        also_sweep=settling.finish_running,
    )
    return Mercury(
        settings, stores, histories, summarising, answering, streams, settling, engine, chat,
        shared, notes,
    )  # fmt: skip


def vault_of(settings: Settings, clock: Clock) -> Vault:
    """The notes of these settings, for the server and for `mfw` beside it."""
    return Vault(
        settings.wiki_path, settings.mercury_data / "wiki-index.db", WikiWords(),
        lambda: clock.now() // 1000, trials.stop_at,
    )  # fmt: skip


def remote_of(settings: Settings, vault: Vault, clock: Clock) -> Remote | None:
    """Whom the notes are shared with, if anybody."""
    if not settings.wiki_remote:
        return None
    token = settings.wiki_remote_token
    return Remote(
        vault.repository, settings.wiki_remote, token.get_secret_value() if token else "",
        lambda: clock.now() // 1000,
    )  # fmt: skip


def shared_of(settings: Settings, secret: bytes, process: str) -> Shared:
    """The mirror and the words between processes: through Redis, or none."""
    if settings.redis_url is None:
        return Shared(None, NoMirror(), Bus(), Relay())
    link = RedisLink(settings.redis_url.get_secret_value(), fingerprint(secret))
    return Shared(
        link,
        RedisMirror(link, settings.session_idle_timeout_ms),
        RedisBus(link, process),
        RedisRelay(link),
    )


def preload(settings: Settings) -> None:
    """Imports what these settings will need, so that workers that are forked later have it.

    A worker that was killed is then back within a tenth of a second, and no person's message
    waits for an import.
    """
    modules = ["bot.http.app"]
    if settings.model_url:
        modules += ["bot.openai_model", "bot.wire", "openai.resources.chat.completions"]
    if settings.google_chat_format:
        modules += ["bot.chat.door", "googleapiclient.discovery", "google_auth_httplib2",
                    "google.oauth2.service_account", "google.auth.jwt"]  # fmt: skip
    for module in modules:
        importlib.import_module(module)


def model_of(settings: Settings) -> Model:
    """The configured model, or the extractive responder."""
    if settings.model_url:
        from bot.openai_model import openai_model

        key = settings.model_api_key.get_secret_value() if settings.model_api_key else ""
        return openai_model(settings.model_url, settings.model, key)
    from bot.extractive import ExtractiveModel

    return ExtractiveModel()


def summariser_of(model: Model) -> Summariser:
    """The model as summariser, or the digest when nothing here completes texts."""
    if not isinstance(model, RemoteModel):
        return DigestSummariser()

    def ask(prompt: list[dict[str, Any]]) -> str:
        try:
            return model.complete(prompt, Stop(SUMMARY_S))
        except (ModelError, Stopped) as error:
            raise SummaryFailed(type(error).__name__) from error

    return ModelSummariser(ask)


def chat_of(
    settings: Settings, stores: Stores, settling: Settling
) -> tuple[Mapping[str, Delivery], Mapping[str, Materials]]:
    """The delivery to Google Chat and what is attached there, if it is configured."""
    form = settings.google_chat_format
    if not form:
        return {}, {}
    from bot.chat.api import ChatApi
    from bot.chat.attachments import Attachments
    from bot.chat.beside import Beside
    from bot.chat.cards import Cards
    from bot.chat.client import Client
    from bot.chat.deliver import ChatDelivery

    client = Client(settings.google_chat_api_url, settings.google_application_credentials)
    cards = Cards(settling, form, settings.google_chat_audience, settings.public_url)
    beside = Beside(ChatApi(client), stores.deliveries, cards, stores.clock)
    delivery = ChatDelivery(client, stores.deliveries, cards, beside)
    return {"chat": delivery}, {"chat": Attachments(client)}


def link_hosts(settings: Settings) -> tuple[str, ...]:
    """The hosts whose links may leave in any answer: the operator's list, and our own."""
    ours = (settings.public_url, settings.google_chat_audience)
    return (*settings.link_hosts, *(host for url in ours if url and (host := host_of(url))))


def persona_of(settings: Settings) -> str:
    """The persona file's text, or the built-in persona.

    Raises:
        SettingsError: the file cannot be read.
    """
    if settings.persona_file is None:
        return PERSONA
    try:
        return Path(settings.persona_file).read_text(encoding="utf-8").strip() or PERSONA
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"PERSONA_FILE={settings.persona_file}: {error}") from error


def instance_secret(settings: Settings) -> bytes:
    """`MERCURY_SECRET`, else what the first start wrote to `$MERCURY_DATA/secret` (mode 600).

    Raises:
        SettingsError: the file is there and cannot be read, or is too short to be ours.
    """
    if settings.mercury_secret is not None:
        return settings.mercury_secret.get_secret_value().encode()
    path = settings.secret_path
    path.parent.mkdir(parents=True, exist_ok=True)
    _make_once(path, lambda: secrets.token_hex(32).encode())
    try:
        found = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{path}: {error}") from error
    if len(found) < 32:
        raise SettingsError(f"{path} holds no secret of ours: restore it, or set MERCURY_SECRET")
    return found


def _make_once(path: Path, content: Callable[[], bytes]) -> None:
    """Writes a private file that appears whole or not at all, unless it is there."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)
    except FileExistsError:
        log.debug("another process made %s at the same time", path)
    finally:
        draft.unlink()


def check_secret(database: Database, secret: bytes) -> None:
    """Remembers the secret's fingerprint in a new archive, and knows it again later.

    Raises:
        SettingsError: the archive belongs to another secret.
    """
    mine = fingerprint(secret)
    row = database.read(lambda tx: tx.row("SELECT value FROM meta WHERE name = 'secret'"))
    if row is None:
        database.write(
            lambda tx: tx.run(
                "INSERT INTO meta (name, value) VALUES ('secret', ?) ON CONFLICT (name) DO NOTHING",
                mine,
            )
        )
    elif row[0] != mine:
        raise SettingsError(
            "the archive was made under another secret: set the MERCURY_SECRET (or restore the "
            "file `secret`) that belongs to it"
        )


def needs_migration(stores: Stores) -> bool:
    """Whether the archive has a schema older than this version's.

    Raises:
        WrongSchema: it has a newer one.
    """
    return bool(pending(stores.database))


__all__ = ["Mercury", "Stores", "WrongSchema", "build", "open_stores"]
