"""Runs turns: which key, in which thread, how often, and what becomes of each outcome.

The archive says what is left to do; the engine only hurries. Whoever accepted a message tells
it the key, and a sweep finds whatever nobody told. One thread at a time works on a key, under
the key's lease, and goes on with the key's next turn as long as there is one.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bot import words
from bot.afterwards import Afterwards
from bot.attempt import Attempts
from bot.bus import Bus
from bot.delivery import Commands, Delivery, Later
from bot.keypool import KeyPool
from bot.logs import turn as logged_turn
from bot.quiet import Quiet
from bot.stop import Stop, Stopped
from bot.streams import Live, Outcome, Streams
from bot.watch import Active, Watch
from memory.accepting import Accepting
from memory.conversation import History
from memory.errors import Fenced, StoreDown
from memory.histories import Histories
from memory.processes import Processes
from memory.turn_rows import Accepted, Answer, Incoming, Suspect, Turn, Work
from memory.turns import Turns

log = logging.getLogger(__name__)

TRIES = 3
"""Failures of its own after which a turn is set aside."""
RETRY_S = (1.0, 5.0)
"""Pauses after a first and a second failure of a turn."""
SWEEP_S = 1.0
FILLING_SWEEP_S = 0.1
"""The pause between two looks while what was found at the start is still let in slowly."""
BEAT_S = 2.0
IDLE_SWEEP_S = 30.0
TRIAL_SWEEP_S = 2.0
RECOVERY_S = 1.0
RECOVERY_LOOK_S = 0.02
DRAIN_S = 8.0
LAST_WORD_S = 0.5
"""What stopped turns get to let go."""
SWEEP_KEYS = 256
"""Keys that one sweep looks at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times that the engine keeps: the deadline of an attempt, and a trial's quicker sweeps."""

    turn_s: float
    trial: bool = False


class Engine:
    """The pool that works on turns, and the sweeps beside it.

    Args:
        deliveries: how each channel that delivers does so; a channel that is missing here has
            its answers read from the archive.
        alone: whether this is the only serving process, so that older leases are void.
    """

    def __init__(
        self,
        *,
        accepting: Accepting,
        turns: Turns,
        attempts: Attempts,
        commands: Commands,
        histories: Histories,
        afterwards: Afterwards,
        processes: Processes,
        streams: Streams,
        deliveries: Mapping[str, Delivery],
        limits: Limits,
        process: str,
        version: str,
        alone: bool,
        bus: Bus,
        also_sweep: Callable[[], None] = lambda: None,
    ) -> None:
        self.streams = streams
        self.process = process
        self._accepting = accepting
        self._turns = turns
        self._attempts = attempts
        self._commands = commands
        self._histories = histories
        self.afterwards = afterwards
        self._processes = processes
        self._deliveries = deliveries
        self._limits = limits
        self._version = version
        self._alone_process = alone
        self._bus = bus
        self._also_sweep = also_sweep
        self._keys = KeyPool(self._work_off, self.look)
        self._lock = threading.Lock()
        self._active: dict[str, Active] = {}
        self._quiet = Quiet()
        self._one_less = threading.Condition(self._lock)
        self._ending = threading.Event()
        self._drained = threading.Event()
        self._threads: list[threading.Thread] = []
        self._look = threading.Event()
        self._next_idle_sweep = 0.0

    # -- starting and ending ----------------------------------------------------------------

    @property
    def ending(self) -> bool:
        """Whether the process takes no new work any more."""
        return self._ending.is_set()

    @property
    def drained(self) -> bool:
        """Whether nothing that waits for a turn here will see its end any more."""
        return self._drained.is_set()

    def start(self) -> None:
        """Voids what an earlier process held, if this one is alone, and starts the sweeps.

        What was being answered when that process died is tried first, for a second at most: a
        message that was at hand twice by chance is then out of the way before the next mishap.

        Raises:
            StoreDown: the archive cannot be written; call it again later.
        """
        if self._alone_process:
            self._turns.void_leases()
            self.afterwards.void_claims()
        self._beat()
        watch = Watch(self._turns, self._deliveries, self._active_now, self._guarded)
        loops = (
            ("beat", self._beat_on),
            ("sweep", self._sweep_on),
            ("watch", lambda: watch.run(self._ending)),
        )
        for name, run in loops:
            thread = threading.Thread(target=run, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        self._bus.listen({"ended": self._ended_elsewhere, "cancelled": self._stop_here})
        if self._alone_process:
            self._recover()

    def _ended_elsewhere(self, turn: str) -> None:
        """Whoever waits here for a turn that another process ran need not wait longer."""
        if self.streams.find(turn) is not None:
            self.streams.close(turn)

    def _stop_here(self, turn: str) -> None:
        with self._lock:
            active = self._active.get(turn)
        if active is not None:
            active.stop.stop("cancelled")

    def _recover(self) -> None:
        until = time.monotonic() + RECOVERY_S
        while self._turns.count_running() and time.monotonic() < until:
            self._ending.wait(RECOVERY_LOOK_S)

    def drain(self, seconds: float = DRAIN_S) -> None:
        """Ends in order: nothing new begins, what can finish does, the rest is handed over."""
        if self._ending.is_set():
            self._drained.wait(seconds + 1)
            return
        self._ending.set()
        self._look.set()
        self._keys.end()
        self._wait_for_active(seconds)
        with self._lock:
            active = list(self._active.values())
        for one in active:
            one.stop.stop("handover")
        self._wait_for_active(LAST_WORD_S)
        try:
            handed = self._turns.hand_over(self.process)
            self._processes.leave(self.process)
        except StoreDown as error:
            log.error("the turns in flight will be picked up later: %s", error)
        else:
            log.info("ended in order; %d turns are handed over", handed)
        finally:
            self._drained.set()

    def close(self) -> None:
        """Frees the threads; `drain` comes first."""
        self._ending.set()
        self._look.set()
        self._keys.close()
        self._bus.close()
        self.afterwards.close()
        for thread in self._threads:
            thread.join(1.0)

    def _wait_for_active(self, seconds: float) -> None:
        with self._one_less:
            self._one_less.wait_for(lambda: not self._active, seconds)

    # -- which key runs where ---------------------------------------------------------------

    def accept(self, incoming: Incoming) -> Accepted:
        """Stores a message and begins with its turn, in one transaction where a thread is free.

        Raises:
            Mismatch, NotFound, Conflict, StoreDown: as `Accepting.accept`; nothing was stored.
        """
        chat = incoming.channel == "chat"
        reserved: list[str] = []

        def may_take(key: str) -> bool:
            if key not in reserved and self._keys.reserve(key, chat):
                reserved.append(key)
            return key in reserved

        taken: Work | None = None
        try:
            accepted, taken = self._accepting.accept_and_take(incoming, self.process, may_take)
            if accepted.new:
                self._attempts.step("accepted")
                self.streams.open(accepted.turn)
        finally:
            # A transaction that ran twice may have reserved another key the first time.
            for key in reserved:
                is_taken = taken is not None and taken.turn.key == key
                self._keys.begin(key, chat, taken if is_taken else None)
        if accepted.new and accepted.key not in reserved:
            self.notify(accepted.key, chat)
        return accepted

    def notify(self, key: str, chat: bool) -> None:
        """Says that something waits under a key."""
        self._keys.notify(key, chat)

    def look(self) -> None:
        """Says that the archive has something to be done that belongs to no key."""
        self._look.set()

    def _work_off(self, key: str, taken: Work | None) -> None:
        """The edge of the pool: whatever goes wrong under a key stays under that key."""
        try:
            with self._quiet.together():
                work = self._work_through(taken or self._turns.take(key, self.process))
            if isinstance(work, Suspect):
                with self._quiet.alone():
                    self._work_through(self._turns.take(key, self.process, alone=True))
        except StoreDown as error:
            log.error("the archive is away: %s", error)
        except Exception:
            log.exception("the work under a key failed")

    def _work_through(self, work: Work | Suspect | None) -> Suspect | None:
        """Runs turn after turn of a key; what comes back has to be tried alone."""
        while isinstance(work, Work) and not self._ending.is_set():
            work = self._run(work)
        return work if isinstance(work, Suspect) else None

    # -- one turn ---------------------------------------------------------------------------

    def _run(self, work: Work) -> Work | None:
        """Runs one attempt of a turn; returns the key's next turn, taken under the same lease."""
        turn, stop = work.turn, Stop(self._limits.turn_s)
        logged_turn.set(turn.id)
        with self._lock:
            self._active[turn.id] = Active(work, stop, time.monotonic())
        self._attempts.step("leased")
        try:
            return self._attempt(work, stop)
        except Fenced:
            log.info("a turn was taken over or cancelled")
            self._keys.again(turn.key)
            return None
        except Stopped as stopped:
            if stopped.why == "cancelled":
                self._keys.again(turn.key)
            return None
        finally:
            with self._one_less:
                del self._active[turn.id]
                self._one_less.notify_all()

    def _attempt(self, work: Work, stop: Stop) -> Work | None:
        turn = work.turn
        if turn.answered:
            return self._deliver(work, stop)
        live = self.streams.open(turn.id)
        live.begin(work.fence)
        if turn.failures + turn.deaths >= TRIES:
            return self._set_aside(work, live, "the process died in it")
        history: History | None = None
        try:
            if turn.command:
                answer = Answer(self._commands.answer(work))
            else:
                answer, history = self._attempts.run(work, stop, live.put)
        except (Fenced, Stopped, StoreDown):
            raise
        except Exception as error:  # the edge around an attempt
            log.exception("attempt %d of a turn failed", turn.attempts)
            return self._failed(work, live, type(error).__name__)
        return self._store(work, stop, live, answer, history)

    def _failed(self, work: Work, live: Live, why: str) -> Work | None:
        failures = work.turn.failures + work.turn.deaths + 1
        if failures >= TRIES:
            return self._set_aside(work, live, why)
        self._turns.postpone(work, RETRY_S[failures - 1], why, failed=True)
        return None

    def _set_aside(self, work: Work, live: Live, why: str) -> Work | None:
        log.error("a turn is set aside: %s", why)
        live.reset()
        live.put("text", {"delta": words.APOLOGY})
        answer = Answer(words.APOLOGY, state="set_aside", reason=why)
        return self._store(work, Stop(self._limits.turn_s), live, answer, None)

    def _store(
        self, work: Work, stop: Stop, live: Live, answer: Answer, history: History | None
    ) -> Work | None:
        turn = work.turn
        delivery = self._deliveries.get(turn.channel)
        if delivery is not None:
            answer = replace(answer, parts=delivery.parts(turn, answer))
        if answer.parts:
            stored, following = self._turns.answer(work, answer), None
        else:
            stored, following = self._turns.answer_and_next(work, answer)
        if history is not None:
            self._histories.keep(work, history, stored)
        self._attempts.step("answered")
        if answer.parts:
            following = self._deliver(work, stop)
        else:
            live.outcome = Outcome(stored.message, answer.extras)
            self._close(turn.id)
        if history is not None and history.size > self._attempts.limit:
            self.afterwards.compact(turn.conversation)
        return following

    def _deliver(self, work: Work, stop: Stop) -> Work | None:
        self._attempts.step("delivering")
        outcome = self._deliveries[work.turn.channel].deliver(work.turn, stop)
        if isinstance(outcome, Later):
            log.warning("a delivery waits %.0f s: %s", outcome.seconds, outcome.why)
            self._turns.postpone(work, outcome.seconds, outcome.why, failed=False)
            return None
        self._attempts.step("delivered")
        following = self._turns.delivered(work, outcome.lost)
        self._close(work.turn.id)
        return following

    def _close(self, turn: str) -> None:
        """A turn has ended: those who watch it are told, here and elsewhere."""
        self.streams.close(turn)
        self._bus.say("ended", turn)

    def cancel(self, turn_id: str, owner: str) -> Turn:
        """Ends a turn that is not answered yet, wherever it runs, and goes on with its key.

        Raises:
            NotFound: there is no such turn of that owner.
            Conflict: it has ended, or its answer is already stored.
            StoreDown: nothing has changed.
        """
        turn = self._turns.get(turn_id, owner)
        delivery = self._deliveries.get(turn.channel)
        parts = () if delivery is None else delivery.parts(turn, Answer(words.STOPPED))
        turn = self._turns.cancel(turn_id, owner, words.STOPPED, parts)
        self._stop_here(turn.id)
        self._bus.say("cancelled", turn.id)
        if not parts:
            self._close(turn.id)
        self.notify(turn.key, chat=turn.channel == "chat")
        return turn

    def _active_now(self) -> list[Active]:
        with self._lock:
            return list(self._active.values())

    # -- sweeps -----------------------------------------------------------------------------

    def _beat_on(self) -> None:
        while not self._ending.wait(BEAT_S):
            self._guarded(self._beat)

    def _beat(self) -> None:
        self._processes.beat(self.process, socket.gethostname(), os.getpid(), self._version)

    def _sweep_on(self) -> None:
        """Looks for what nobody told, at once at the start and often while the pool fills."""
        while not self._ending.is_set():
            self._look.clear()
            self._guarded(self._sweep)
            self._look.wait(FILLING_SWEEP_S if self._keys.growing else SWEEP_S)

    def _sweep(self) -> None:
        found = self._turns.to_do(self.process, SWEEP_KEYS)
        self._keys.offer((key, channel == "chat") for key, channel in found)
        if time.monotonic() >= self._next_idle_sweep:
            pause = TRIAL_SWEEP_S if self._limits.trial else IDLE_SWEEP_S
            self._next_idle_sweep = time.monotonic() + pause
            self.afterwards.sweep()
        for delivery in self._deliveries.values():
            delivery.sweep()
        self._also_sweep()

    @staticmethod
    def _guarded(run: Callable[[], None]) -> None:
        """The edge of the engine's own threads."""
        try:
            run()
        except StoreDown as error:
            log.error("the archive is away: %s", error)
        except Exception:
            log.exception("a sweep failed")
