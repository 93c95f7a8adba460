"""What events mean: every fixture in both forms, and no body that raises."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chat.events import (
    Added,
    Attachment,
    Click,
    Form,
    Ignored,
    Message,
    Removed,
    Target,
    is_in,
    parse,
)
from bot.scope import Scope
from tests.shared import load, names, needs_shared

ALL: frozenset[str] = frozenset()
ADA, BEN = "users/200000000000000000001", "users/200000000000000000002"
DM, ROOM, GROUP = "spaces/FIXDM00001", "spaces/FIXROOM0001", "spaces/FIXGROUP001"
FORMS: tuple[Form, Form] = ("addon", "classic")

MESSAGES: dict[str, tuple[str, str | None, str]] = {
    # name: key, thread that is answered in, text
    "dm_message": (DM, None, "remind me what we decided about the logo"),
    "dm_thread_reply": (DM, f"{DM}/threads/tDM1", "and who owns it?"),
    "group_chat_mention": (GROUP, None, "hi"),
    "message_formatted": (DM, None, "bold and code and Docs"),
    "message_from_other_domain": (DM, None, "hello from another company"),
    "message_with_attachment": (DM, None, "summarise this"),
    "message_with_drive_attachment": (DM, None, "see the budget"),
    "message_with_gif": (DM, None, ""),
    "space_mention": (f"{ROOM}/threads/tR1", f"{ROOM}/threads/tR1", "what changed today?"),
    "space_mention_after_emoji": (
        f"{ROOM}/threads/tR5",
        f"{ROOM}/threads/tR5",
        "👩‍💻🎉  ciao",
    ),
}
OTHERS = {
    "added_to_space_by_mention_2_of_2",
    "message_matched_url",
    "message_quoted",
    "space_mention_empty",
    "space_mention_midtext",
    "space_thread_reply_mention",
    "slash_command",
    "slash_command_no_args",
}
ADDED = {
    "added_to_dm",
    "added_to_space",
    "added_to_space_by_mention",
    "added_to_space_by_mention_1_of_2",
}
CLICKED = {"card_clicked", "card_clicked_by_other_user"}
REMOVED = {"removed_from_dm": DM, "removed_from_space": ROOM}
FIXTURES = [(form, name) for form in FORMS for name in names(f"google-chat/{form}")]


def fixture(form: str, name: str) -> dict[str, Any]:
    body: dict[str, Any] = load(f"google-chat/{form}/{name}.json")
    return body


def inner(form: str, body: dict[str, Any]) -> dict[str, Any]:
    """The message of an event, in either form."""
    found: dict[str, Any] = (body if form == "classic" else body["chat"]["messagePayload"])[
        "message"
    ]
    return found


def read(form: Form, name: str) -> Message:
    event = parse(fixture(form, name), form, ALL)
    assert isinstance(event, Message)
    return event


@needs_shared
@pytest.mark.parametrize(("form", "name"), FIXTURES)
def test_every_fixture_is_of_the_right_kind(form: Form, name: str) -> None:
    event = parse(fixture(form, name), form, ALL)
    if name in REMOVED:
        assert event == Removed(REMOVED[name])
    elif name in MESSAGES or name in OTHERS:
        assert isinstance(event, Message)
    elif name in ADDED:
        assert isinstance(event, Added)
    elif name in CLICKED:
        assert isinstance(event, Click)
    else:
        assert isinstance(event, Ignored)
        assert event.why
        assert event.keys


@needs_shared
@pytest.mark.parametrize(("form", "name"), [one for one in FIXTURES if one[1] in MESSAGES])
def test_a_message_has_its_key_target_and_text(form: Form, name: str) -> None:
    key, thread, text = MESSAGES[name]
    event = read(form, name)
    assert (event.key, event.target.thread, event.text) == (key, thread, text)
    assert event.id == inner(form, fixture(form, name))["name"]
    assert event.target.space == event.id.split("/messages/")[0]
    assert event.target.private_to is None


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_who_asks_and_who_reads_the_answer(form: Form) -> None:
    assert read(form, "dm_message").scope == Scope(f"google-chat:{ADA}", "dm")
    assert read(form, "space_mention").scope == Scope(f"google-chat:{ADA}", "space", ROOM)
    assert read(form, "group_chat_mention").scope == Scope(f"google-chat:{ADA}", "space", GROUP)
    assert read(form, "message_quoted").scope.person == f"google-chat:{BEN}"
    assert read(form, "dm_message").author_name == "Ada Fixture"


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_two_messages_of_a_thread_share_its_key(form: Form) -> None:
    first, second = read(form, "space_mention"), read(form, "space_thread_reply_mention")
    assert first.key == second.key == first.target.thread == second.target.thread
    assert first.id != second.id


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_mentions_are_not_cut_out_by_their_indexes(form: Form) -> None:
    assert read(form, "space_mention_midtext").text == "hey  and , please compare"
    assert read(form, "space_mention_empty").text == ""


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_a_quoted_message_stands_apart_from_the_text(form: Form) -> None:
    event = read(form, "message_quoted")
    assert (event.text, event.quoted) == ("is this still true?", "we ship on Friday")
    assert read(form, "dm_message").quoted is None


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_attachments_are_known_by_their_resource_and_never_by_address(form: Form) -> None:
    resource = "ClFmaXh0dXJlLW1lZGlhLXJlc291cmNlLW5hbWU="
    assert read(form, "message_with_attachment").attachments == (
        Attachment("notes.pdf", "application/pdf", resource),
    )
    (drive,) = read(form, "message_with_drive_attachment").attachments
    assert (drive.name, drive.resource, drive.why) == ("Budget", "", "drive")


@needs_shared
@pytest.mark.parametrize(
    "resource", ["../../x", "a?alt=json", "a#b", "a b", "", 7, None, "x" * 3000]
)
def test_a_resource_that_could_lead_elsewhere_is_not_kept(resource: Any) -> None:
    body = fixture("classic", "message_with_attachment")
    body["message"]["attachment"][0]["attachmentDataRef"]["resourceName"] = resource
    event = parse(body, "classic", ALL)
    assert isinstance(event, Message)
    assert [(one.resource, one.why) for one in event.attachments] == [("", "unknown")]


@needs_shared
def test_a_gif_is_an_attachment() -> None:
    (gif,) = read("classic", "message_with_gif").attachments
    assert (gif.name, gif.why) == ("a GIF", "gif")


@needs_shared
def test_being_added_by_a_mention_is_a_welcome_and_a_message_in_both_forms() -> None:
    classic = parse(fixture("classic", "added_to_space_by_mention"), "classic", ALL)
    assert isinstance(classic, Added)
    assert classic.message is not None
    assert classic.message.text == "welcome, what can you do?"
    first = parse(fixture("addon", "added_to_space_by_mention_1_of_2"), "addon", ALL)
    assert isinstance(first, Added)
    assert first.message is None
    assert read("addon", "added_to_space_by_mention_2_of_2").id == classic.message.id


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_being_added_has_one_id_however_often_it_is_told(form: Form) -> None:
    body = fixture(form, "added_to_space")
    first, again = parse(body, form, ALL), parse(copy.deepcopy(body), form, ALL)
    assert isinstance(first, Added)
    assert first == again
    assert first.target == Target(ROOM)
    (body if form == "classic" else body["chat"])["eventTime"] = "2026-12-01T00:00:00Z"
    later = parse(body, form, ALL)
    assert isinstance(later, Added)
    assert later.id != first.id


@needs_shared
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["added_to_space", "card_clicked", "slash_command"])
def test_half_a_character_breaks_no_id(form: Form, name: str) -> None:
    body = fixture(form, name)
    (body if form == "classic" else body["chat"])["eventTime"] = "\ud800"
    event = parse(body, form, ALL)
    assert isinstance(event, Added | Click | Message)
    event.id.encode()


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_an_administrator_s_install_is_silent(form: Form) -> None:
    body = fixture(form, "added_to_dm")
    space = (body if form == "classic" else body["chat"]["addedToSpacePayload"])["space"]
    space["adminInstalled"] = True
    event = parse(body, form, ALL)
    assert isinstance(event, Ignored)
    assert event.why == "installed by an administrator"


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_a_slash_command_is_as_if_it_were_typed(form: Form) -> None:
    event = read(form, "slash_command")
    assert (event.text, event.key) == ("/recap last week", f"{ROOM}/threads/tR11")
    assert read(form, "slash_command_no_args").text == "/recap"


def quick(form: Form, id_: Any, kind: str = "QUICK_COMMAND") -> dict[str, Any]:
    """A quick command, which comes without any message."""
    user = {"name": ADA, "displayName": "Ada Fixture", "type": "HUMAN"}
    space = {"name": ROOM, "spaceType": "SPACE", "spaceThreadingState": "THREADED_MESSAGES"}
    told = {"appCommandMetadata": {"appCommandId": id_, "appCommandType": kind}, "space": space,
            "thread": {"name": f"{ROOM}/threads/tR1"}}  # fmt: skip
    if form == "classic":
        return {"type": "APP_COMMAND", "user": user, "eventTime": "t", **told}
    return {"chat": {"user": user, "eventTime": "t", "appCommandPayload": told}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("id_", "text"), [(1, "/help"), (2.0, "/new"), ("5", "/recap"), (99, "/help"), (None, "/help")]
)
def test_a_quick_command_is_known_by_the_id_that_the_console_was_given(
    form: Form, id_: Any, text: str
) -> None:
    event = parse(quick(form, id_), form, ALL)
    assert isinstance(event, Message)
    assert (event.text, event.key) == (text, f"{ROOM}/threads/tR1")
    again = parse(quick(form, id_), form, ALL)
    assert isinstance(again, Message)
    assert again.id == event.id


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["MESSAGE_ACTION", "SOMETHING_NEW", ""])
def test_other_commands_are_ignored(form: Form, kind: str) -> None:
    assert isinstance(parse(quick(form, 1, kind), form, ALL), Ignored)


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_a_click_names_its_person_place_and_decision(form: Form) -> None:
    event = parse(fixture(form, "card_clicked"), form, ALL)
    assert isinstance(event, Click)
    assert (event.action, event.decision, event.ref) == (
        "wiki.promote", "confirm", "cfm_7Q2N0FIXTURE",
    )  # fmt: skip
    assert event.scope == Scope(f"google-chat:{ADA}", "space", ROOM)
    other = parse(fixture(form, "card_clicked_by_other_user"), form, ALL)
    assert isinstance(other, Click)
    assert other.scope.person == f"google-chat:{BEN}"
    assert other.id != event.id


@needs_shared
def test_a_click_on_a_card_from_before_the_conversion_is_known_by_its_method() -> None:
    body = fixture("addon", "card_clicked")
    parameters = body["commonEventObject"]["parameters"]
    del parameters["action"]
    parameters["__action_method_name__"] = "wiki.promote"
    event = parse(body, "addon", ALL)
    assert isinstance(event, Click)
    assert (event.action, event.decision) == ("wiki.promote", "confirm")


@needs_shared
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "change", [{"decision": "maybe"}, {"ref": 7}, {"ref": "x" * 999}, {"ref": None}]
)
def test_a_click_on_no_button_of_ours_is_ignored(form: Form, change: dict[str, Any]) -> None:
    body = fixture(form, "card_clicked")
    if form == "classic":
        body["action"]["parameters"] = []
        body["common"]["parameters"].update(change)
    else:
        body["commonEventObject"]["parameters"].update(change)
    assert isinstance(parse(body, form, ALL), Ignored)


@needs_shared
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["message_from_bot", "message_from_self"])
def test_no_bot_is_answered(form: Form, name: str) -> None:
    event = parse(fixture(form, name), form, ALL)
    assert isinstance(event, Ignored)
    assert event.why == "sent by a bot"


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_only_people_of_the_allowed_domains_are_answered(form: Form) -> None:
    mine = frozenset({"Corp.Example.TEST"})
    assert isinstance(parse(fixture(form, "dm_message"), form, mine), Message)
    other = parse(fixture(form, "message_from_other_domain"), form, mine)
    assert isinstance(other, Ignored)
    assert other.why == "another domain"
    body = fixture(form, "dm_message")
    user = body["user"] if form == "classic" else body["chat"]["user"]
    for email in (None, "", "ada", "ada@corp.example.test.evil.example"):
        user["email"] = email
        assert isinstance(parse(body, form, mine), Ignored)


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_the_event_s_user_is_the_person_and_the_sender_stands_in_for_a_missing_one(
    form: Form,
) -> None:
    body = fixture(form, "dm_message")
    holder = body if form == "classic" else body["chat"]
    inner(form, body)["sender"]["name"] = "users/7"
    event = parse(body, form, ALL)
    assert isinstance(event, Message)
    assert event.scope.person == f"google-chat:{ADA}"
    holder["user"] = None
    event = parse(body, form, ALL)
    assert isinstance(event, Message)
    assert event.scope.person == "google-chat:users/7"
    inner(form, body)["sender"]["type"] = "BOT"
    assert isinstance(parse(body, form, ALL), Ignored)


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_a_person_is_never_known_by_e_mail_or_name(form: Form) -> None:
    for name in ("ada@corp.example.test", "users/ada@corp.example.test", "users/", "users/1/x"):
        body = fixture(form, "dm_message")
        (body if form == "classic" else body["chat"])["user"]["name"] = name
        assert isinstance(parse(body, form, ALL), Ignored)


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_a_private_message_in_a_space_is_answered_privately(form: Form) -> None:
    body = fixture(form, "space_mention")
    inner(form, body)["privateMessageViewer"] = {"name": ADA}
    event = parse(body, form, ALL)
    assert isinstance(event, Message)
    assert event.target == Target(ROOM, f"{ROOM}/threads/tR1", ADA)


@needs_shared
@pytest.mark.parametrize(
    ("space", "kind"),
    [
        ({"spaceType": "DIRECT_MESSAGE"}, "dm"),
        ({"type": "DM"}, "dm"),
        ({"singleUserBotDm": True}, "dm"),
        ({"spaceType": None, "type": "DM"}, "dm"),
        ({"spaceType": "SPACE", "type": "DM", "singleUserBotDm": True}, "space"),
        ({"spaceType": "SOMETHING_NEW_2027"}, "space"),
        ({"spaceType": 7, "type": "DM"}, "space"),
        ({"type": "ROOM"}, "space"),
        ({"singleUserBotDm": "true"}, "space"),
        ({}, "space"),
    ],
)
def test_a_space_that_is_not_known_to_be_private_is_shared(
    space: dict[str, Any], kind: str
) -> None:
    body = fixture("classic", "dm_message")
    body["space"] = {"name": DM} | space
    event = parse(body, "classic", ALL)
    assert isinstance(event, Message)
    assert event.scope.kind == kind


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_an_unthreaded_space_is_one_conversation(form: Form) -> None:
    body = fixture(form, "space_mention")
    space = (body if form == "classic" else body["chat"]["messagePayload"])["space"]
    space["spaceThreadingState"] = "UNTHREADED_MESSAGES"
    event = parse(body, form, ALL)
    assert isinstance(event, Message)
    assert (event.key, event.target) == (ROOM, Target(ROOM))


@needs_shared
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("name", f"{GROUP}/messages/x"),
        ("name", f"{ROOM}/messages/"),
        ("name", f"{ROOM}/messages/.."),
        ("name", f"{ROOM}/messages/a/b"),
        ("name", f"{ROOM}/messages/x\n"),
        ("thread", {"name": f"{GROUP}/threads/t"}),
        ("thread", {"name": f"{ROOM}/threads/t?x"}),
        ("thread", {"name": 7}),
        ("thread", "tR1"),
        ("space", {"name": GROUP}),
    ],
)
def test_a_name_of_another_place_ends_the_event(form: Form, field: str, name: Any) -> None:
    body = fixture(form, "space_mention")
    inner(form, body)[field] = name
    assert isinstance(parse(body, form, ALL), Ignored)


@needs_shared
@pytest.mark.parametrize("name", names("google-chat/malformed"))
def test_a_malformed_event_is_ignored_in_both_forms(name: str) -> None:
    body = load(f"google-chat/malformed/{name}.json")
    for form in FORMS:
        assert isinstance(parse(body, form, ALL), Ignored)


@needs_shared
def test_an_event_of_the_other_form_is_ignored() -> None:
    assert isinstance(parse(fixture("classic", "dm_message"), "addon", ALL), Ignored)
    assert isinstance(parse(fixture("addon", "dm_message"), "classic", ALL), Ignored)


@needs_shared
def test_only_names_of_keys_are_told_of_an_ignored_event() -> None:
    event = parse(fixture("addon", "message_action"), "addon", ALL)
    assert isinstance(event, Ignored)
    assert "chat.appCommandPayload" in event.keys
    assert list(event.keys) == sorted(event.keys)
    event = parse({"evil\nkey": 1, "a" * 99: 1, "type": "X"}, "classic", ALL)
    assert isinstance(event, Ignored)
    assert event.keys == ("type",)


@pytest.mark.parametrize("body", [None, [], [{}], 1, "x", True, {}, {"chat": []}, {"chat": None}])
def test_what_is_no_event_is_ignored(body: object) -> None:
    for form in FORMS:
        assert isinstance(parse(body, form, ALL), Ignored)


def test_names_belong_to_their_space() -> None:
    assert is_in("spaces/S/threads/t.1", "spaces/S", "threads")
    assert not is_in("spaces/S/threads/t", "spaces/S2", "threads")
    assert not is_in("spaces/S/messages/t", "spaces/S", "threads")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a body."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, one in value.items():
            found += places(one, (*path, key))
    elif isinstance(value, list):
        for n, one in enumerate(value):
            found += places(one, (*path, n))
    return found


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=False),
    st.sampled_from(["", "x", "spaces/..", "spaces/A/messages/../x", "users/1", "BOT", "\ud800"]),
    st.text(max_size=5),
    st.builds(list),
    st.builds(dict),
    st.builds(lambda: [None]),
    st.builds(lambda: {"name": None}),
    st.lists(st.dictionaries(st.text(max_size=3), st.none(), max_size=2), max_size=2),
)


@needs_shared
@given(data=st.data())
@settings(max_examples=1_500, deadline=None)
def test_no_mutated_event_raises_or_leads_elsewhere(data: st.DataObject) -> None:
    form, name = data.draw(st.sampled_from(FIXTURES))
    body = copy.deepcopy(fixture(form, name))
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(places(body)))
        holder: Any = body
        for key in above:
            holder = holder[key]
        if data.draw(st.booleans()) and isinstance(holder, dict):
            del holder[last]
        else:
            holder[last] = data.draw(JUNK)
        if not body:
            break
    event = parse(body, form, data.draw(st.sampled_from([ALL, frozenset({"corp.example.test"})])))
    if isinstance(event, Added) and event.message is not None:
        event = event.message
    if isinstance(event, Message):
        assert is_in(event.id, event.target.space, "messages") or event.id.startswith("command:")
        assert event.key in (event.target.space, event.target.thread)
        assert event.scope.space in (None, event.target.space)
        assert all(isinstance(one, str) for one in (event.text, event.author_name))
        assert all(".." not in one.resource for one in event.attachments)
    elif isinstance(event, Click):
        assert event.decision in ("confirm", "cancel")
        assert isinstance(event.ref, str)
    else:
        assert isinstance(event, Added | Removed | Ignored)
