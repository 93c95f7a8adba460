"""What every database under the archive keeps: one suite, run on each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest

from bot.scope import Scope
from memory.accepting import Accepting
from memory.archive import Archive
from memory.confirmations import TRIES, Confirmations
from memory.database import Database, Tx
from memory.deliveries import Deliveries
from memory.errors import Conflict, Fenced, Mismatch, NotFound
from memory.ids import random_id
from memory.processes import Processes
from memory.records import Message, ToolCall
from memory.schema import NEWEST, migrate, pending, version_of
from memory.tokens import Tokens
from memory.turn_rows import Answer, Incoming, Part, Suspect, Work
from memory.turns import Turns
from tests.clock import HandClock

IDLE_MS = 1_800_000
ALICE = Scope("http:alice", "http")
BOB = Scope("http:bob", "http")
ADA = Scope("google-chat:users/1", "dm")
ROOM = Scope("google-chat:users/1", "space", "spaces/ROOM")
_numbers = count()


class Stores:
    """The archive's parts over one database, and short ways to use them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = HandClock()
        self.archive = Archive(database, self.clock, random_id, 60_000)
        self.accepting = Accepting(database, self.clock, random_id, IDLE_MS)
        self.turns = Turns(database, self.clock, random_id)
        self.confirmations = Confirmations(database, self.clock, random_id)
        self.deliveries = Deliveries(database)
        self.processes = Processes(database)
        self.tokens = Tokens(database, self.clock, random_id)

    def incoming(
        self, text: str = "hello", scope: Scope = ALICE, conversation: str | None = "c1",
        event: str | None = None, hash: str = "",
    ) -> Incoming:  # fmt: skip
        chat = scope.kind in ("dm", "space")
        key = (scope.space or "spaces/DM") + ("/threads/T" if scope.space else "")
        return Incoming(
            event=event or f"event-{next(_numbers)}", channel="chat" if chat else "http",
            person=scope.person, owner=scope.owner, kind=scope.kind, space=scope.space,
            name="Alice", text=text, key=key if chat else None,
            conversation=None if chat else conversation, hash=hash,
        )  # fmt: skip

    def take(self, key: str, process: str = "p1", alone: bool = False) -> Work:
        work = self.turns.take(key, process, alone)
        assert isinstance(work, Work)
        return work

    def exchange(
        self, text: str, answer: str, scope: Scope = ALICE, tools: tuple[ToolCall, ...] = (),
        conversation: str | None = "c1",
    ) -> Work:  # fmt: skip
        accepted = self.accepting.accept(self.incoming(text, scope, conversation))
        work = self.take(accepted.key)
        self.turns.answer_and_next(work, Answer(answer, tools))
        return work


class ArchiveContract:
    """The promises; a subclass gives the fixture `database`."""

    @pytest.fixture
    def database(self) -> Iterator[Database]:
        raise NotImplementedError("a subclass says which database")

    @pytest.fixture
    def stores(self, database: Database) -> Stores:
        migrate(database)
        return Stores(database)

    # -- transactions ---------------------------------------------------------------------

    def test_an_error_keeps_nothing_of_its_transaction(self, stores: Stores) -> None:
        def work(tx: Tx) -> None:
            tx.run("INSERT INTO meta (name, value) VALUES ('x', '1')")
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            stores.database.write(work)
        assert stores.database.read(lambda tx: tx.row("SELECT 1 FROM meta WHERE name='x'")) is None

    def test_writers_at_once_lose_nothing_and_fail_alone(self, stores: Stores) -> None:
        def write(n: int) -> int:
            def work(tx: Tx) -> int:
                tx.run("INSERT INTO meta (name, value) VALUES (?, 'v')", f"k{n}")
                if n % 5 == 0:
                    raise ValueError(str(n))
                return n

            try:
                return stores.database.write(work)
            except ValueError:
                return -1

        with ThreadPoolExecutor(16) as pool:
            done = list(pool.map(write, range(200)))
        kept = stores.database.read(lambda tx: tx.rows("SELECT name FROM meta WHERE value = 'v'"))
        assert {f"k{n}" for n in done if n >= 0} == {name for (name,) in kept}
        assert len(kept) == 160

    def test_the_schema_is_the_newest_and_migrating_again_does_nothing(
        self, stores: Stores
    ) -> None:
        assert stores.database.read(version_of) == NEWEST
        assert pending(stores.database) == []
        assert migrate(stores.database) == []

    # -- accepting ------------------------------------------------------------------------

    def test_an_event_is_stored_once_whatever_comes_under_its_id(self, stores: Stores) -> None:
        first = stores.accepting.accept(stores.incoming("one", event="e"))
        again = stores.accepting.accept(stores.incoming("two", event="e"))
        assert (first.new, again.new) == (True, False)
        assert (again.turn, again.message) == (first.turn, first.message)
        page = stores.archive.messages(ALICE, "c1")
        assert [message.text for message in page.items] == ["one"]

    def test_a_known_event_with_another_hash_is_a_mismatch(self, stores: Stores) -> None:
        stores.accepting.accept(stores.incoming("one", event="e", hash="h1"))
        with pytest.raises(Mismatch):
            stores.accepting.accept(stores.incoming("two", event="e", hash="h2"))

    def test_eight_copies_at_once_make_one_turn(self, stores: Stores) -> None:
        ready = threading.Barrier(8)

        def accept(_: int) -> bool:
            ready.wait()
            return stores.accepting.accept(stores.incoming("hi", event="same")).new

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(accept, range(8))) == [False] * 7 + [True]

    def test_texts_come_back_word_for_word(self, stores: Stores) -> None:
        text = "tab\there\n\n  'quotes' \"and\" 👩‍👩‍👧‍👦 会議 {{7*7}} %s é \\ \u202e"
        stores.exchange(text, text[::-1])
        page = stores.archive.messages(ALICE, "c1")
        assert [message.text for message in page.items] == [text, text[::-1]]

    def test_a_client_s_own_conversation_name_is_its_person_s_alone(self, stores: Stores) -> None:
        mine = stores.accepting.accept(stores.incoming("a", ALICE, "same"))
        theirs = stores.accepting.accept(stores.incoming("b", BOB, "same"))
        assert mine.key != theirs.key
        assert [m.text for m in stores.archive.messages(ALICE, "same").items] == ["a"]
        assert [m.text for m in stores.archive.messages(BOB, "same").items] == ["b"]

    def test_our_own_ids_must_exist_and_be_the_person_s(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming("a", ALICE, None))
        assert accepted.conversation.startswith("cv_")
        stores.accepting.accept(stores.incoming("b", ALICE, accepted.conversation))
        for scope, name in ((BOB, accepted.conversation), (ALICE, "cv_unknown")):
            with pytest.raises(NotFound):
                stores.accepting.accept(stores.incoming("c", scope, name))

    def test_a_chat_conversation_is_read_only_over_http(self, stores: Stores) -> None:
        ada = Scope("http:ada", "http")
        stores.accepting.accept(stores.incoming("a", ADA))
        (found,) = stores.archive.conversations(ADA.owner).items
        with pytest.raises(NotFound):
            stores.accepting.accept(stores.incoming("x", ada, found.id))
        same_person = Scope(ADA.person, "http")
        with pytest.raises(Conflict) as conflict:
            stores.accepting.accept(stores.incoming("x", same_person, found.id))
        assert conflict.value.state == "read_only_here"

    # -- order, leases, fences --------------------------------------------------------------

    def test_turns_of_a_key_are_taken_in_their_order(self, stores: Stores) -> None:
        keys = [stores.accepting.accept(stores.incoming(str(n))).key for n in range(3)]
        work: Work | None = stores.take(keys[0])
        seen = []
        while work is not None:
            seen.append(work.message.text)
            _, work = stores.turns.answer_and_next(work, Answer("ok"))
        assert seen == ["0", "1", "2"]

    def test_a_key_is_held_by_one_live_process(self, stores: Stores) -> None:
        stores.processes.beat("p1", "host", 1, "0")
        key = stores.accepting.accept(stores.incoming()).key
        stores.take(key, "p1")
        assert stores.turns.take(key, "p2") is None
        stores.processes.leave("p1")
        assert stores.turns.take(key, "p2") is not None

    def test_a_message_is_accepted_and_taken_at_once_where_it_may_be(self, stores: Stores) -> None:
        stores.processes.beat("p1", "host", 1, "0")
        accepted, work = stores.accepting.accept_and_take(
            stores.incoming("one", event="e"), "p1", lambda key: True
        )
        assert work is not None
        assert (work.turn.id, work.turn.attempts, work.message.text) == (accepted.turn, 1, "one")
        assert stores.turns.take(accepted.key, "p2") is None
        again, nothing = stores.accepting.accept_and_take(
            stores.incoming("one", event="e"), "p1", lambda key: True
        )
        assert (again.turn, again.new, nothing) == (accepted.turn, False, None)
        other, waits = stores.accepting.accept_and_take(
            stores.incoming("two", BOB, event="f"), "p1", lambda key: False
        )
        assert (other.new, waits) == (True, None)
        assert stores.turns.get(other.turn).state == "waiting"

    def test_a_key_that_another_holds_is_not_on_the_list(self, stores: Stores) -> None:
        stores.processes.beat("p1", "host", 1, "0")
        key = stores.accepting.accept(stores.incoming()).key
        assert stores.turns.to_do("p2", 10) == [(key, "http")]
        stores.take(key, "p1")
        assert stores.turns.to_do("p2", 10) == []
        assert stores.turns.to_do("p1", 10) == [(key, "http")]

    def test_a_holder_that_was_overtaken_can_write_nothing(self, stores: Stores) -> None:
        key = stores.accepting.accept(stores.incoming()).key
        stale = stores.take(key, "p1")
        fresh = stores.take(key, "p2")
        call = ToolCall(1, "wiki_write", "{}", "ok", False)
        for write in (
            lambda: stores.turns.answer(stale, Answer("stale")),
            lambda: stores.turns.answer_and_next(stale, Answer("stale")),
            lambda: stores.turns.record_call(stale, call),
            lambda: stores.turns.delivered(stale),
            lambda: stores.turns.postpone(stale, 1, "x", True),
            lambda: stores.turns.check_fence(stale),
        ):
            with pytest.raises(Fenced):
                write()
        stores.turns.release(stale)
        stores.turns.answer_and_next(fresh, Answer("fresh"))
        texts = [message.text for message in stores.archive.messages(ALICE, "c1").items]
        assert texts == ["hello", "fresh"]

    def test_an_attempt_is_counted_before_it_runs_and_a_death_when_it_is_found(
        self, stores: Stores
    ) -> None:
        key = stores.accepting.accept(stores.incoming()).key
        assert (stores.take(key).turn.attempts, stores.take(key).turn.deaths) == (1, 0)
        stores.turns.void_leases()
        assert stores.take(key).turn.deaths == 1
        stores.turns.void_leases()
        assert isinstance(stores.turns.take(key, "p1"), Suspect)
        assert isinstance(stores.turns.take(key, "p1"), Suspect)
        third = stores.take(key, alone=True)
        assert (third.turn.attempts, third.turn.deaths) == (4, 2)

    def test_a_handover_gives_the_attempt_back_and_fences_the_old_one_out(
        self, stores: Stores
    ) -> None:
        key = stores.accepting.accept(stores.incoming()).key
        work = stores.take(key, "p1")
        assert stores.turns.hand_over("p1") == 1
        with pytest.raises(Fenced):
            stores.turns.answer(work, Answer("late"))
        again = stores.take(key, "p2")
        assert (again.turn.attempts, again.turn.deaths) == (1, 0)

    def test_a_postponed_turn_waits_and_holds_up_its_key_alone(self, stores: Stores) -> None:
        key = stores.accepting.accept(stores.incoming("one")).key
        stores.accepting.accept(stores.incoming("two"))
        stores.turns.postpone(stores.take(key), 60, "later", failed=True)
        assert stores.turns.take(key, "p1") is None
        assert stores.turns.to_do("p1", 10) == []
        other = stores.accepting.accept(stores.incoming("x", BOB)).key
        assert stores.turns.to_do("p1", 10) == [(other, "http")]

    def test_a_time_further_ahead_than_any_wait_counts_as_now(self, stores: Stores) -> None:
        key = stores.accepting.accept(stores.incoming()).key
        stores.turns.postpone(stores.take(key), 60, "later", failed=False)
        stores.database.write(
            lambda tx: tx.run("UPDATE turns SET due_at = due_at + 86400000 WHERE key = ?", key)
        )
        assert stores.turns.to_do("p1", 10) == [(key, "http")]
        assert stores.turns.take(key, "p1") is not None

    def test_recorded_calls_are_given_to_the_next_attempt(self, stores: Stores) -> None:
        key = stores.accepting.accept(stores.incoming()).key
        work = stores.take(key)
        unknown = ToolCall(1, "wiki_write", '{"path":"a"}', "outcome unknown: look first", False)
        stores.turns.record_call(work, unknown)
        assert stores.take(key).calls == (unknown,)

    def test_an_answer_stands_with_its_tool_records(self, stores: Stores) -> None:
        call = ToolCall(1, "archive_search", '{"query":"x"}', "ok", True)
        stores.exchange("q", "a", tools=(call,))
        question, answer = stores.archive.messages(ALICE, "c1").items
        assert (question.tools, answer.tools) == ((), (call,))

    def test_a_cancelled_turn_takes_no_answer(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming())
        work = stores.take(accepted.key)
        stores.turns.cancel(accepted.turn, ALICE.owner, "Stopped.")
        with pytest.raises(Fenced):
            stores.turns.answer(work, Answer("late"))
        assert stores.turns.get(accepted.turn).state == "cancelled"
        with pytest.raises(Conflict):
            stores.turns.cancel(accepted.turn, ALICE.owner, "Stopped.")
        with pytest.raises(NotFound):
            stores.turns.cancel(accepted.turn, BOB.owner, "Stopped.")

    def test_a_turn_set_aside_is_retried_or_dismissed(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming())
        aside = Answer("Sorry.", state="set_aside", reason="it died")
        stores.turns.answer_and_next(stores.take(accepted.key), aside)
        assert [turn.id for turn in stores.turns.in_state(("set_aside",), 9)] == [accepted.turn]
        stores.turns.retry(accepted.turn)
        stores.turns.answer_and_next(stores.take(accepted.key), Answer("now it works"))
        texts = [message.text for message in stores.archive.messages(ALICE, "c1").items]
        assert texts == ["hello", "Sorry.", "now it works"]
        with pytest.raises(Conflict):
            stores.turns.dismiss(accepted.turn)

    def test_a_cancelled_turn_whose_channel_is_told_ends_when_that_is_out(
        self, stores: Stores
    ) -> None:
        accepted = stores.accepting.accept(stores.incoming(scope=ADA))
        work = stores.take(accepted.key)
        stores.turns.cancel(accepted.turn, ADA.owner, "Stopped.", (Part("m", "Stopped."),))
        with pytest.raises(Fenced):
            stores.turns.answer(work, Answer("late"))
        again = stores.take(accepted.key)
        assert again.turn.answered
        assert [part.text for part in stores.deliveries.of(accepted.turn)] == ["Stopped."]
        stores.turns.delivered(again)
        assert stores.turns.get(accepted.turn).state == "cancelled"

    def test_what_was_overtaken_is_told_by_its_fence(self, stores: Stores) -> None:
        works = []
        for name in ("c1", "c2"):
            accepted = stores.accepting.accept(stores.incoming(conversation=name))
            works.append(stores.take(accepted.key))
        fences = {work.turn.id: work.fence for work in works}
        assert stores.turns.overtaken(fences) == []
        stores.turns.cancel(works[0].turn.id, ALICE.owner, "Stopped.")
        assert stores.turns.overtaken(fences) == [works[0].turn.id]
        assert stores.turns.overtaken({}) == []

    # -- commands and replies ---------------------------------------------------------------

    def test_a_command_takes_its_place_and_is_no_message(self, stores: Stores) -> None:
        first = stores.accepting.accept(stores.incoming("one", scope=ADA))
        asked = replace(stores.incoming("", scope=ADA), command="recap last week")
        command = stores.accepting.accept(asked)
        assert (command.new, command.message, command.key) == (True, "", first.key)
        assert stores.accepting.accept(asked).new is False
        work = stores.take(first.key)
        assert work.turn.id == first.turn
        stores.turns.answer(work, Answer("a", parts=(Part("m1", "a"),)))
        following = stores.turns.delivered(work)
        assert following is not None
        assert (following.turn.command, following.message.text) == ("recap last week", "")
        assert following.conversation.id == work.conversation.id
        stores.turns.answer(following, Answer("r", parts=(Part("m2", "r"),)))
        assert stores.turns.delivered(following) is None
        page = stores.archive.messages(None, work.conversation.id)
        assert [message.text for message in page.items] == ["one", "a"]
        assert stores.turns.get(command.turn, ADA.owner).state == "done"

    def test_a_command_before_any_message_has_no_conversation(self, stores: Stores) -> None:
        command = stores.accepting.accept(replace(stores.incoming("", scope=ADA), command="new"))
        work = stores.take(command.key)
        assert (work.turn.command, work.conversation.id, command.conversation) == ("new", "", "")
        assert stores.accepting.accept(stores.incoming("hi", scope=ADA)).conversation

    def test_new_ends_the_sitting_where_it_stands_in_the_order(self, stores: Stores) -> None:
        before = stores.accepting.accept(stores.incoming("one", scope=ADA))
        stores.accepting.accept(replace(stores.incoming("", scope=ADA), command="new"))
        after = stores.accepting.accept(stores.incoming("two", scope=ADA))
        assert after.conversation != before.conversation
        found = stores.archive.conversation(None, after.conversation)
        assert found.previous == before.conversation
        work = stores.take(before.key)
        assert work.conversation.id == before.conversation

    def test_a_reply_is_delivered_beside_the_order_and_leaves_no_key(self, stores: Stores) -> None:
        waiting = stores.accepting.accept(stores.incoming("one", scope=ADA))
        asked = stores.incoming("", scope=ADA, event="e-help")
        said = stores.accepting.say(asked, (Part("m", "help"),))
        assert said.new
        assert stores.accepting.say(asked, (Part("m", "other"),)).new is False
        work = stores.take(said.key)
        assert work.turn.answered
        assert [part.text for part in stores.deliveries.of(work.turn.id)] == ["help"]
        assert stores.turns.delivered(work) is None
        keys = stores.database.read(lambda tx: tx.rows("SELECT key FROM keys"))
        assert keys == [(waiting.key,)]
        assert stores.turns.get(said.turn).state == "done"

    def test_who_has_been_told_what_is_kept_with_the_conversation(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming())
        stores.turns.answer_and_next(stores.take(accepted.key), Answer("a", told=("wiki",)))
        accepted = stores.accepting.accept(stores.incoming())
        stores.turns.answer_and_next(stores.take(accepted.key), Answer("b", told=("memory",)))
        assert stores.archive.conversation(ALICE, "c1").told == {"wiki", "memory"}

    def test_what_a_person_typed_in_a_conversation_is_found_by_a_part_of_it(
        self, stores: Stores
    ) -> None:
        work = stores.exchange("see HTTPS://A.example/100%_x", "https://a.example/answer")
        stores.exchange("https://a.example/elsewhere", "b", conversation="c2")
        id_ = work.conversation.id
        typed = ["see HTTPS://A.example/100%_x"]
        assert stores.archive.typed(id_, "a.example", 1) == typed
        assert stores.archive.typed(id_, "100%_", 1) == typed
        assert stores.archive.typed(id_, "100_%", 1) == []
        assert stores.archive.typed(id_, "a.example", 0) == []

    def test_an_event_that_is_no_message_is_noted_once(self, stores: Stores) -> None:
        assert stores.accepting.noted("e") is None
        assert stores.accepting.note_event("e", "http", "code", '{"answer": "a"}')
        assert not stores.accepting.note_event("e", "http", "code", '{"answer": "b"}')
        assert stores.accepting.noted("e") == ("code", {"answer": "a"})

    # -- deliveries and lanes ---------------------------------------------------------------

    def test_parts_are_stored_with_the_answer_and_the_turn_runs_until_they_are_out(
        self, stores: Stores
    ) -> None:
        accepted = stores.accepting.accept(stores.incoming(scope=ADA))
        work = stores.take(accepted.key)
        parts = (Part("client-a", "one"), Part("client-b", "two"))
        stores.turns.answer(work, Answer("one two", parts=parts))
        assert [d.state for d in stores.deliveries.of(accepted.turn)] == ["waiting"] * 2
        assert stores.take(accepted.key).turn.answered
        work = stores.take(accepted.key)
        assert work.turn.attempts == 1
        for part in stores.deliveries.of(accepted.turn):
            stores.deliveries.mark(part, "sent", "spaces/DM/messages/x", "")
        stores.turns.delivered(work)
        assert stores.turns.get(accepted.turn).state == "done"

    def test_a_part_that_is_too_long_is_replaced_in_its_place(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming(scope=ADA))
        parts = (Part("a", "1"), Part("b", "22"), Part("c", "3"))
        stores.turns.answer(stores.take(accepted.key), Answer("x", parts=parts))
        second = stores.deliveries.of(accepted.turn)[1]
        stores.deliveries.resplit(second, ["2", "2"], ["b", "b-1"])
        after = stores.deliveries.of(accepted.turn)
        assert [(d.part, d.message, d.text) for d in after] == [
            (0, "a", "1"), (1, "b", "2"), (2, "b-1", "2"), (3, "c", "3"),
        ]  # fmt: skip

    def test_a_placeholder_stands_where_the_answer_will(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming(scope=ADA))
        work = stores.take(accepted.key)
        placed = stores.deliveries.place(work.turn.id, work.turn.key, work.fence, "m0")
        assert placed is not None
        assert stores.deliveries.place(work.turn.id, work.turn.key, work.fence, "m0") is None
        assert stores.deliveries.counts() == {"placeholder": 1}
        stores.turns.answer(work, Answer("a", parts=(Part("m0", "one"), Part("m1", "two"))))
        stores.deliveries.placed(placed, "spaces/S/messages/x", "spaces/S/threads/t")
        first, second = stores.deliveries.of(work.turn.id)
        assert (first.text, first.state, first.name) == ("one", "waiting", "spaces/S/messages/x")
        assert (second.text, second.state, second.name) == ("two", "waiting", "")
        assert stores.deliveries.counts() == {"waiting": 2}

    def test_no_placeholder_comes_after_the_answer_or_from_another(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming(scope=ADA))
        work = stores.take(accepted.key)
        assert stores.deliveries.place(work.turn.id, work.turn.key, work.fence + 1, "m0") is None
        stores.turns.answer(work, Answer("a", parts=(Part("m0", "one"),)))
        assert stores.deliveries.place(work.turn.id, work.turn.key, work.fence, "m0") is None

    def test_a_card_is_to_be_settled_once_its_confirmation_is(self, stores: Stores) -> None:
        accepted = stores.accepting.accept(stores.incoming(scope=ADA))
        work = stores.take(accepted.key)
        staged = stores.confirmations.stage(
            ADA.person, work.turn.key, work.conversation.id, work.turn.id, "publish", {}
        )
        stores.turns.answer(work, Answer("a", parts=(Part("m0", "", staged.id),)))
        (card,) = stores.deliveries.of(work.turn.id)
        now = stores.clock.now()
        assert stores.deliveries.cards_to_settle(now, 9) == []
        stores.deliveries.mark(card, "sent", "spaces/S/messages/x", "")
        assert stores.deliveries.cards_to_settle(now, 9) == []
        assert len(stores.deliveries.cards_to_settle(staged.expires_at, 9)) == 1
        begun = stores.confirmations.begin(staged, "confirm")
        assert begun is not None
        assert stores.deliveries.cards_to_settle(now, 9) == []
        stores.confirmations.settle(begun, "done", "published", "publish: published")
        (found,) = stores.deliveries.cards_to_settle(now, 9)
        assert (found.delivery.card, found.target) == (staged.id, "{}")
        stores.deliveries.mark(found.delivery, "settled", found.delivery.name, "")
        assert stores.deliveries.cards_to_settle(now, 9) == []

    def test_lanes_that_let_nothing_through_are_told(self, stores: Stores) -> None:
        stores.deliveries.slot("spaces/OPEN")
        stores.deliveries.hold_lane("spaces/HELD", 30)
        stores.deliveries.close_lane("spaces/SHUT", "removed from the space")
        held, shut = stores.deliveries.lanes()
        assert (held.space, held.closed) == ("spaces/HELD", "")
        assert 25 < held.seconds <= 30
        assert (shut.space, shut.closed) == ("spaces/SHUT", "removed from the space")

    def test_a_lane_gives_one_slot_a_second(self, stores: Stores) -> None:
        waits = [stores.deliveries.slot("spaces/S") for _ in range(3)]
        assert waits[0] == 0.0
        assert waits[1] == pytest.approx(1.0, abs=0.5)
        assert waits[2] == pytest.approx(1.0, abs=0.5)
        assert stores.deliveries.slot("spaces/OTHER") == 0.0
        stores.database.write(lambda tx: tx.run("UPDATE lanes SET free_at = free_at - 1000"))
        assert stores.deliveries.slot("spaces/S") == 0.0

    def test_a_lane_that_was_held_lets_nothing_through_for_that_long(self, stores: Stores) -> None:
        stores.deliveries.hold_lane("spaces/S", 7.0)
        assert stores.deliveries.slot("spaces/S") == pytest.approx(7.0, abs=0.5)

    def test_a_closed_lane_lets_nothing_through_until_it_is_opened(self, stores: Stores) -> None:
        stores.deliveries.close_lane("spaces/S", "removed")
        assert stores.deliveries.slot("spaces/S") is None
        stores.deliveries.open_lane("spaces/S")
        assert stores.deliveries.slot("spaces/S") == 0.0

    # -- conversations ----------------------------------------------------------------------

    def test_half_an_idle_hour_on_chat_opens_a_new_conversation(self, stores: Stores) -> None:
        stores.exchange("one", "1", ADA)
        stores.clock.move(1799)
        stores.exchange("two", "2", ADA)
        stores.clock.move(1800)
        third = stores.exchange("three", "3", ADA)
        newest, oldest = stores.archive.conversations(ADA.owner).items
        assert (third.conversation.id, third.conversation.previous) == (newest.id, oldest.id)
        assert (oldest.ended_at, newest.ended_at) == (stores.clock.at, None)

    def test_an_unfinished_turn_keeps_a_conversation_from_being_idle(self, stores: Stores) -> None:
        first = stores.accepting.accept(stores.incoming("one", ADA))
        stores.clock.move(7200)
        assert stores.archive.end_idle(IDLE_MS) == []
        second = stores.accepting.accept(stores.incoming("two", ADA))
        assert first.conversation == second.conversation

    def test_the_sweep_and_a_message_end_a_conversation_once(self, stores: Stores) -> None:
        stores.exchange("one", "1", ADA)
        for _ in range(20):
            stores.clock.move(3600)
            with ThreadPoolExecutor(4) as pool:
                ended = [pool.submit(stores.archive.end_idle, IDLE_MS) for _ in range(3)]
                accepted = pool.submit(
                    stores.accepting.accept, stores.incoming("next", ADA)
                ).result()
            assert sum(len(one.result()) for one in ended) <= 1
            work = stores.take(accepted.key)
            stores.turns.answer_and_next(work, Answer("ok"))
        chain = stores.archive.conversations(ADA.owner).items
        assert len(chain) == 21
        assert [c.previous for c in chain[:-1]] == [c.id for c in chain[1:]]

    def test_over_http_a_conversation_never_ends(self, stores: Stores) -> None:
        stores.exchange("one", "1")
        stores.clock.move(10_000_000)
        assert stores.archive.end_idle(IDLE_MS) == []
        stores.exchange("two", "2")
        assert len(stores.archive.conversations(ALICE.owner).items) == 1

    def test_foreign_and_missing_conversations_are_the_same(self, stores: Stores) -> None:
        stores.exchange("one", "1")
        (mine,) = stores.archive.conversations(ALICE.owner).items
        for name in (mine.id, "c1", "cv_missing"):
            with pytest.raises(NotFound):
                stores.archive.conversation(BOB, name)
            with pytest.raises(NotFound):
                stores.archive.messages(BOB, name)
            with pytest.raises(NotFound):
                stores.archive.rename(BOB, name, "x")

    def test_a_space_s_conversations_are_nobody_s_own(self, stores: Stores) -> None:
        stores.exchange("in the room", "1", ROOM)
        stores.exchange("in private", "2", ADA)
        assert len(stores.archive.conversations(ADA.owner).items) == 1
        assert len(stores.archive.conversations(ROOM.owner).items) == 1

    # -- pages --------------------------------------------------------------------------------

    def test_pages_go_back_and_forth_without_a_gap(self, stores: Stores) -> None:
        for n in range(23):
            stores.exchange(f"q{n}", f"a{n}")
        whole = stores.archive.messages(ALICE, "c1", limit=200).items
        assert [m.text for m in whole] == [f"{x}{n}" for n in range(23) for x in "qa"]
        backward: list[Message] = []
        cursor = None
        while True:
            page = stores.archive.messages(ALICE, "c1", before=cursor, limit=7)
            backward = page.items + backward
            cursor = page.next
            if cursor is None:
                break
        assert backward == whole
        stores.exchange("new", "new")
        forward = stores.archive.messages(ALICE, "c1", limit=1).items
        assert [m.text for m in forward] == ["new"]

    def test_pages_forward_from_a_place_see_what_came_later(self, stores: Stores) -> None:
        from memory import cursor as cursors

        for n in range(5):
            stores.exchange(f"q{n}", f"a{n}")
        place = cursors.encode(2, 1)
        page = stores.archive.messages(ALICE, "c1", after=place, limit=4)
        assert [m.text for m in page.items] == ["q2", "a2", "q3", "a3"]
        rest = stores.archive.messages(ALICE, "c1", after=page.next, limit=4)
        assert ([m.text for m in rest.items], rest.next) == (["q4", "a4"], None)

    def test_a_foreign_cursor_is_refused_in_words(self, stores: Stores) -> None:
        stores.exchange("q", "a")
        for cursor in ("x", "////", "W10", "WzEsMl0x" * 50, "é"):
            with pytest.raises(ValueError, match="cursor"):
                stores.archive.messages(ALICE, "c1", before=cursor)

    def test_conversations_are_listed_by_their_newest_message(self, stores: Stores) -> None:
        for n in range(5):
            stores.clock.move(1)
            stores.exchange("x", "y", conversation=f"c{n}")
        stores.clock.move(1)
        stores.exchange("x", "y", conversation="c0")
        seen, cursor = [], None
        while True:
            page = stores.archive.conversations(ALICE.owner, 2, cursor)
            seen += [c.name for c in page.items]
            cursor = page.next
            if cursor is None:
                break
        assert seen == ["c0", "c4", "c3", "c2", "c1"]

    # -- search -------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("The budget is 4,200 euro", "budget"),
            ("明日の会議は10時です", "会議"),
            ("下周讨论预算", "预算"),
            ("다음 회의는 목요일에 합니다", "목요일"),
            ("Der Fußball-Café öffnet", "cafe"),
            ("встреча в четверг", "ЧЕТВЕРГ"),
            ("ประชุมวันพรุ่งนี้", "ประชุม"),
            ("we ship 🚀 today", "🚀"),
            ("say it like this, please", '"like this"'),
        ],
    )
    def test_words_and_quotes_are_found_in_any_script(
        self, stores: Stores, text: str, query: str
    ) -> None:
        stores.exchange(text, "noted")
        stores.exchange("something else entirely", "yes")
        assert [m.text for m in stores.archive.search(ALICE, query).items] == [text]

    def test_a_quote_is_exact(self, stores: Stores) -> None:
        stores.exchange("red, green and blue", "ok")
        stores.exchange("red green and blue", "ok")
        found = stores.archive.search(ALICE, '"red, green"').items
        assert [m.text for m in found] == ["red, green and blue"]

    def test_search_stays_within_its_owner(self, stores: Stores) -> None:
        stores.exchange("canary one", "a", ALICE)
        stores.exchange("canary two", "b", BOB)
        stores.exchange("canary three", "c", ADA)
        stores.exchange("canary four", "d", ROOM)
        for scope, text in ((ALICE, "one"), (BOB, "two"), (ADA, "three"), (ROOM, "four")):
            found = stores.archive.search(scope, "canary").items
            assert [m.text for m in found] == [f"canary {text}"]

    @pytest.mark.parametrize(
        "query", ["\" OR 1=1 -- %' NEAR( * ^", "terms:x", "*", '"', "()", "AND OR NOT", "\x00", ""]
    )
    def test_no_query_is_an_expression(self, stores: Stores, query: str) -> None:
        stores.exchange("alpha", "beta", BOB)
        assert stores.archive.search(ALICE, query).items == []

    def test_search_pages_through_every_hit_once_in_both_orders(self, stores: Stores) -> None:
        for n in range(30):
            stores.exchange(f"needle {n}", "fine")
        for order in ("best", "newest"):
            seen, cursor = [], None
            while True:
                page = stores.archive.search(ALICE, "needle", 7, order, cursor=cursor)
                seen += [m.text for m in page.items]
                cursor = page.next
                if cursor is None:
                    break
            assert sorted(seen) == sorted(f"needle {n}" for n in range(30))
        assert seen == [f"needle {n}" for n in range(29, -1, -1)]

    def test_search_keeps_to_a_time_and_leaves_a_turn_out(self, stores: Stores) -> None:
        begin = stores.clock.at
        for n in range(3):
            stores.exchange(f"apple {n}", "fine")
            stores.clock.move(86_400)
        found = stores.archive.search(
            ALICE, "apple", since=begin + 1, until=begin + 2 * 86_400_000
        ).items
        assert [m.text for m in found] == ["apple 1"]
        turn = found[0].turn
        rest = stores.archive.search(ALICE, "apple", without_turn=turn).items
        assert sorted(m.text for m in rest) == ["apple 0", "apple 2"]

    # -- confirmations ------------------------------------------------------------------------

    def test_a_confirmation_is_settled_once_whoever_comes(self, stores: Stores) -> None:
        work = stores.exchange("do it", "waiting")
        staged = stores.confirmations.stage(
            ALICE.person, work.turn.key, work.conversation.id, work.turn.id, "act", {"x": 1}
        )
        with ThreadPoolExecutor(8) as pool:
            begun = list(
                pool.map(lambda _: stores.confirmations.begin(staged, "confirm"), range(8))
            )
        assert sum(one is not None for one in begun) == 1
        for _ in range(2):
            stores.confirmations.settle(staged, "done", "did it", "It was done.")
        texts = [(m.role, m.text) for m in stores.archive.messages(ALICE, "c1").items]
        assert texts[-1] == ("settled", "It was done.")
        assert [role for role, _ in texts].count("settled") == 1

    def test_a_confirmation_expires_by_time_and_by_tries(self, stores: Stores) -> None:
        work = stores.exchange("do it", "waiting")
        where = (ALICE.person, work.turn.key, work.conversation.id, work.turn.id)
        old = stores.confirmations.stage(*where, "act", {})
        stores.clock.move(901)
        assert stores.confirmations.get(old.id, ALICE.person).state == "expired"
        assert stores.confirmations.begin(old, "confirm") is None
        tried = stores.confirmations.stage(*where, "act", {})
        for _ in range(TRIES):
            stores.confirmations.count_wrong(ALICE.person, work.turn.key)
        assert stores.confirmations.begin(tried, "confirm") is None
        assert stores.confirmations.waiting(ALICE.person) == []

    def test_a_running_confirmation_is_taken_over_once(self, stores: Stores) -> None:
        work = stores.exchange("do it", "waiting")
        staged = stores.confirmations.stage(
            ALICE.person, work.turn.key, work.conversation.id, work.turn.id, "act", {}
        )
        stores.confirmations.begin(staged, "confirm")
        (running,) = stores.confirmations.running()
        stores.clock.move(60)
        assert [stores.confirmations.resume(running) for _ in range(3)] == [True, False, False]

    def test_a_confirmation_is_its_person_s_alone(self, stores: Stores) -> None:
        work = stores.exchange("do it", "waiting")
        staged = stores.confirmations.stage(
            ALICE.person, work.turn.key, work.conversation.id, work.turn.id, "act", {}
        )
        with pytest.raises(NotFound):
            stores.confirmations.get(staged.id, BOB.person)
        assert stores.confirmations.waiting(BOB.person) == []

    # -- tokens and processes -----------------------------------------------------------------

    def test_a_token_names_its_person_until_it_is_revoked_or_expires(self, stores: Stores) -> None:
        token, secret = stores.tokens.new("http:alice", "laptop", None)
        _, short = stores.tokens.new("http:bob", "", 1_000)
        assert stores.tokens.person_of(secret) == "http:alice"
        assert stores.tokens.person_of(short) == "http:bob"
        stores.clock.move(1)
        assert stores.tokens.person_of(short) is None
        stores.tokens.revoke(token.id)
        assert stores.tokens.person_of(secret) is None
        assert stores.tokens.person_of(secret + "x") is None
        with pytest.raises(NotFound):
            stores.tokens.revoke("tok_none")

    def test_the_token_itself_is_stored_nowhere(self, stores: Stores) -> None:
        _, secret = stores.tokens.new("http:alice", "laptop", None)
        rows = stores.database.read(lambda tx: tx.rows("SELECT * FROM tokens"))
        assert secret not in repr(rows)
        assert secret.removeprefix("mcy_") not in repr(rows)

    def test_a_process_lives_by_its_heartbeat(self, stores: Stores) -> None:
        stores.processes.beat("p1", "host", 7, "1.0")
        stores.processes.beat("p1", "host", 7, "1.0")
        (process,) = stores.processes.all()
        assert (process.pid, process.alive) == (7, True)
        stores.database.write(lambda tx: tx.run("UPDATE processes SET heartbeat_at = 5"))
        assert [one.alive for one in stores.processes.all()] == [False]
