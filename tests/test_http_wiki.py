"""The notes over HTTP: who sees which, versions, the common area by confirmation, refusals."""

from __future__ import annotations

import json
import logging
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from werkzeug.test import TestResponse

from bot import words
from bot.mercury import Mercury
from bot.settings import Settings, load
from memory.ids import random_id
from memory.waiting_notes import WaitingNotes
from tests.clock import HandClock
from tests.models import Echo
from tests.test_http_routes import PROBLEM, TIME, listening, spoken
from tests.test_wiki_machines import Machine
from tests.web import Person, Web, lose_archive
from tests.wikis import OPERATOR, git, is_sound, write
from wiki.paths import folder_of
from wiki.vault import By

Make = Callable[..., Mercury]
NOTES = "/api/wiki/notes"

ROUTES = [
    ("GET", NOTES),
    ("GET", f"{NOTES}/x.md"),
    ("PUT", f"{NOTES}/x.md"),
    ("DELETE", f"{NOTES}/x.md"),
    ("GET", "/api/wiki/search?q=x"),
    ("GET", "/api/wiki/history?path=x.md"),
    ("GET", "/api/wiki/diff?path=x.md&from=1234567"),
    ("POST", "/api/wiki/restore"),
    ("POST", "/api/wiki/promote"),
]
"""Every route; each needs a token."""


@pytest.fixture
def web(make: Make) -> Web:
    return Web(make(model=Echo()))


@pytest.fixture
def alice(web: Web) -> Person:
    return web.person("alice")


@pytest.fixture
def bob(web: Web) -> Person:
    return web.person("bob")


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def put(person: Person, path: str, text: str, **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return person.request("PUT", f"{NOTES}/{path}", named, json={"text": text})


def delete(person: Person, path: str, **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return person.request("DELETE", f"{NOTES}/{path}", named)


def read(person: Person, path: str, **headers: str) -> TestResponse:
    return person.get(f"{NOTES}/{path}", **headers)


def written(person: Person, path: str, text: str) -> str:
    """Writes a new note; returns its version."""
    response = put(person, path, text)
    assert response.status_code == 201, response.get_data(as_text=True)
    return str(response.get_json()["base"])


def common(web: Web, path: str, text: str) -> str:
    """Writes a note of the common area as the operator; returns its version."""
    return write(web.mercury.notes.vault, path, text, "")


def settle(person: Person, token: str, decision: str = "confirm") -> TestResponse:
    return person.post(f"/api/confirmations/{token}", {"decision": decision})


def asked(response: TestResponse) -> dict[str, Any]:
    """What the person is asked to confirm."""
    assert response.status_code == 202, response.get_data(as_text=True)
    told: dict[str, Any] = response.get_json()
    assert set(told) == {"confirmation"}
    found: dict[str, Any] = told["confirmation"]
    return found


def refusal(response: TestResponse, status: int, code: str) -> dict[str, Any]:
    """The problem that a response has to be."""
    body = response.get_data(as_text=True)
    assert (response.status_code, response.content_type) == (status, PROBLEM), body
    told: dict[str, Any] = response.get_json()
    assert (told["status"], told["code"]) == (status, code)
    return told


# -- one's own notes --------------------------------------------------------------------------


def test_a_new_note_is_201_and_read_back_byte_for_byte(web: Web, alice: Person) -> None:
    text = "---\ncssclass:  wide # kept\n---\n# Plan\r\n\nÄ 会議 👩‍💻\ttab \u202e\n\n\n"
    response = put(alice, "plans/plan.md", text)
    told = response.get_json()
    assert response.status_code == 201
    assert set(told) == {"path", "base", "commit"}
    assert told["path"] == "mine/plans/plan.md"
    assert response.headers["ETag"] == f'"{told["base"]}"'
    found = read(alice, "mine/plans/plan.md")
    assert found.headers["ETag"] == f'"{told["base"]}"'
    body = found.get_json()
    assert set(body) == {"path", "title", "text", "base", "updated", "backlinks"}
    assert (body["path"], body["title"], body["text"]) == ("mine/plans/plan.md", "Plan", text)
    assert (body["base"], body["backlinks"]) == (told["base"], [])
    assert TIME.fullmatch(body["updated"])
    vault = web.mercury.notes.vault
    assert (vault.root / "people" / folder_of("http:alice") / "plans/plan.md").read_bytes() == (
        text.encode()
    )
    log = git(vault.root, "log", "-1", "--format=%an%n%B", f"people/{folder_of('http:alice')}")
    assert log.splitlines()[0] == "http:alice"
    assert "Turn:" not in log
    assert is_sound(vault)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("a\x00b\x1b", "ab"), ("\ud83d", "\ufffd"), ("a\rb\r\n", "ab\r\n"), ("", ""), (" \n", " \n")],
)
def test_only_what_no_store_can_hold_is_mended(alice: Person, sent: str, kept: str) -> None:
    body = json.dumps({"text": sent})
    response = alice.request(
        "PUT", f"{NOTES}/x.md", data=body, content_type="application/json"
    )  # fmt: skip
    assert response.status_code == 201
    assert read(alice, "x.md").get_json()["text"] == kept
    again = alice.request("PUT", f"{NOTES}/x.md", data=body, content_type="application/json")
    assert (again.status_code, "commit" in again.get_json()) == (200, False)


def test_a_path_without_an_area_is_ones_own_however_it_is_composed(alice: Person) -> None:
    name = "Bücher/ö.md"
    base = written(alice, unicodedata.normalize("NFD", name), "# x\n")
    for form in ("NFC", "NFD"):
        for area in ("", "mine/"):
            for path in (f"{area}{name}", quote(f"{area}{name}", safe="")):
                found = read(alice, unicodedata.normalize(form, path)).get_json()
                assert (found["path"], found["base"]) == (f"mine/{name}", base)
    response = put(alice, name, "# y\n")
    refusal(response, 428, "precondition_required")


def test_the_same_text_again_is_200_without_a_commit(alice: Person) -> None:
    base = written(alice, "x.md", "one")
    for headers in ({}, {"If_Match": '"stale"'}, {"If_Match": f'"{base}"'}):
        response = put(alice, "x.md", "one", **headers)
        assert response.status_code == 200
        assert response.get_json() == {"path": "mine/x.md", "base": base}
        assert response.headers["ETag"] == f'"{base}"'
    assert len(alice.get("/api/wiki/history?path=x.md").get_json()["items"]) == 1


def test_a_change_needs_the_version_that_was_read(alice: Person) -> None:
    first = written(alice, "x.md", "one")
    told = refusal(put(alice, "x.md", "two"), 428, "precondition_required")
    assert "If-Match" in told["detail"]
    changed = put(alice, "x.md", "two", If_Match=f'"{first}"')
    second = changed.get_json()
    assert changed.status_code == 200
    assert set(second) == {"path", "base", "commit"}
    response = put(alice, "x.md", "three", If_Match=f'"{first}"')
    told = refusal(response, 412, "stale")
    assert (told["text"], told["base"]) == ("two", second["base"])
    assert response.headers["ETag"] == f'"{second["base"]}"'
    assert put(alice, "x.md", "three", If_Match=response.headers["ETag"]).status_code == 200
    assert read(alice, "x.md").get_json()["text"] == "three"


@pytest.mark.parametrize("header", ['W/"{}"', '"x{}"', '""', "", ",", '"*"', '"é"'])
def test_what_names_no_version_of_the_note_changes_nothing(alice: Person, header: str) -> None:
    given = header.format(written(alice, "x.md", "one"))
    refusal(put(alice, "x.md", "two", If_Match=given), 412, "stale")
    refusal(delete(alice, "x.md", If_Match=given), 412, "stale")
    assert read(alice, "x.md").get_json()["text"] == "one"


@pytest.mark.parametrize("header", ["*", '"{}"', '"other", "{}"', "{}"])
def test_if_match_may_name_several_versions_or_any(alice: Person, header: str) -> None:
    base = written(alice, "x.md", "one")
    assert put(alice, "x.md", "two", If_Match=header.format(base)).status_code == 200


@pytest.mark.parametrize("header", ["*", '"123"'])
def test_if_match_for_a_note_that_is_not_there_is_412(alice: Person, header: str) -> None:
    response = put(alice, "x.md", "one", If_Match=header)
    told = refusal(response, 412, "stale")
    assert (told["text"], told["base"]) == (None, None)
    assert "ETag" not in response.headers
    assert read(alice, "x.md").status_code == 404


def test_if_none_match_any_makes_a_new_note_and_never_changes_one(alice: Person) -> None:
    first = put(alice, "x.md", "one", If_None_Match="*")
    assert first.status_code == 201
    for text in ("two", "one"):
        told = refusal(put(alice, "x.md", text, If_None_Match="*"), 412, "stale")
        assert told["text"] == "one"
    refusal(put(alice, "x.md", "two", If_None_Match='"other"'), 428, "precondition_required")
    refusal(delete(alice, "x.md", If_None_Match="*"), 412, "stale")


def test_a_version_that_is_known_is_not_sent_again(alice: Person) -> None:
    base = written(alice, "x.md", "one")
    for header in (f'"{base}"', f'W/"{base}"', f'"other", "{base}"', "*"):
        response = read(alice, "x.md", If_None_Match=header)
        assert (response.status_code, response.data) == (304, b"")
        assert response.headers["ETag"] == f'"{base}"'
        assert "Content-Type" not in response.headers
    assert read(alice, "x.md", If_None_Match='"other"').get_json()["text"] == "one"
    refusal(read(alice, "y.md", If_None_Match="*"), 404, "not_found")
    put(alice, "x.md", "two", If_Match=f'"{base}"')
    assert read(alice, "x.md", If_None_Match=f'"{base}"').status_code == 200


def test_a_note_is_deleted_and_its_versions_stay(alice: Person) -> None:
    base = written(alice, "x.md", "one")
    told = refusal(delete(alice, "x.md", If_Match='"other"'), 412, "stale")
    assert (told["text"], told["base"]) == ("one", base)
    response = delete(alice, "x.md", If_Match=f'"{base}"')
    assert (response.status_code, response.data) == (204, b"")
    assert "Content-Type" not in response.headers
    refusal(read(alice, "x.md"), 404, "not_found")
    for headers in ({}, {"If_Match": f'"{base}"'}, {"If_Match": "*"}):
        refusal(delete(alice, "x.md", **headers), 404, "not_found")
    removed, made = alice.get("/api/wiki/history?path=x.md").get_json()["items"]
    assert removed["message"] == "Delete mine/x.md\n"
    assert made["message"] == "Write mine/x.md\n"
    written(alice, "y.md", "two")
    assert delete(alice, "y.md").status_code == 204


def test_of_many_who_change_a_version_at_once_one_does(alice: Person) -> None:
    base = written(alice, "x.md", "one")
    with ThreadPoolExecutor(8) as pool:
        responses = list(
            pool.map(lambda n: put(alice, "x.md", f"by {n}", If_Match=f'"{base}"'), range(8))
        )
    assert sorted(r.status_code for r in responses) == [200] + [412] * 7
    (won,) = [r for r in responses if r.status_code == 200]
    now = read(alice, "x.md").get_json()
    assert now["base"] == won.get_json()["base"]
    for lost in responses:
        if lost is not won:
            assert refusal(lost, 412, "stale")["text"] == now["text"]


def test_names_that_differ_in_their_case_only_are_409(web: Web, alice: Person) -> None:
    written(alice, "Plans/Day.md", "x")
    for path in ("Plans/DAY.md", "plans/other.md"):
        told = refusal(put(alice, path, "y"), 409, "exists")
        assert told["path"].startswith("mine/Plans/")
    common(web, "curated/FAQ.md", "x")
    refusal(put(alice, "curated/faq.md", "y"), 409, "exists")
    told = refusal(
        alice.post("/api/wiki/promote", {"path": "Plans/Day.md", "to": "curated/faq.md"}),
        409, "exists",
    )  # fmt: skip
    assert told["pointer"] == "/to"


@pytest.mark.parametrize("area", ["mine", "curated"])
def test_a_note_that_is_too_long_is_422_and_a_body_that_is_413(alice: Person, area: str) -> None:
    assert put(alice, f"{area}/x.md", "語" * 20_000).status_code in (201, 202)
    told = refusal(put(alice, f"{area}/y.md", "x" * 20_001), 422, "too_long")
    assert told["pointer"] == "/text"
    refusal(put(alice, f"{area}/y.md", "x" * 1_048_576), 413, "too_large")
    refusal(read(alice, f"{area}/y.md"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/text"),
        ({"text": 5}, "/text"),
        ({"text": None}, "/text"),
        ({"text": "x", "base": "y"}, "/base"),
        ([], ""),
    ],
)
def test_a_body_that_is_no_note_is_422(alice: Person, body: Any, pointer: str) -> None:
    response = alice.request("PUT", f"{NOTES}/x.md", json=body)
    assert response.status_code == 422
    assert response.get_json()["pointer"] == pointer
    assert read(alice, "x.md").status_code == 404


# -- lists and search -------------------------------------------------------------------------


def test_notes_are_listed_the_newest_change_first(
    web: Web, alice: Person, clock: HandClock
) -> None:
    bases = {}
    for name in ("one", "two", "three"):
        clock.move(60)
        bases[f"mine/{name}.md"] = written(alice, f"{name}.md", f"# About {name}\n")
    clock.move(60)
    bases["curated/all.md"] = common(web, "curated/all.md", "for all")
    clock.move(60)
    changed = put(alice, "one.md", "# Once more\n", If_Match="*").get_json()
    bases["mine/one.md"] = changed["base"]
    told = alice.get(NOTES).get_json()
    assert [one["path"] for one in told["items"]] == [
        "mine/one.md", "curated/all.md", "mine/three.md", "mine/two.md",
    ]  # fmt: skip
    assert told["next"] is None
    assert {one["path"]: one["base"] for one in told["items"]} == bases
    first = told["items"][0]
    assert set(first) == {"path", "title", "updated", "base"}
    assert first["title"] == "Once more"
    assert first["updated"] == "2026-11-20T09:05:00.000Z"
    for area, count in (("mine", 3), ("curated", 1)):
        items = alice.get(f"{NOTES}?area={area}").get_json()["items"]
        assert len(items) == count
        assert all(one["path"].startswith(f"{area}/") for one in items)


def test_a_list_is_paged_and_its_cursor_stays_while_notes_come_and_go(
    alice: Person, clock: HandClock
) -> None:
    names = [f"mine/n{n}.md" for n in range(7)]
    for name in names:
        written(alice, name, "x")  # all of them at the same time
    first = alice.get(f"{NOTES}?limit=3").get_json()
    assert [one["path"] for one in first["items"]] == names[:3]
    clock.move(60)
    written(alice, "new.md", "x")
    delete(alice, names[2])  # the very one that the cursor stands for
    second = alice.get(f"{NOTES}?limit=3&cursor={first['next']}").get_json()
    assert [one["path"] for one in second["items"]] == names[3:6]
    third = alice.get(f"{NOTES}?limit=3&cursor={second['next']}").get_json()
    assert ([one["path"] for one in third["items"]], third["next"]) == (names[6:], None)


def test_a_date_that_no_calendar_has_breaks_no_list(alice: Person) -> None:
    for n, at in enumerate(
        ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30", "soon")
    ):
        written(alice, f"{n}.md", f"---\nupdated: '{at}'\n---\nx\n")
        assert read(alice, f"{n}.md").status_code == 200
    assert len(alice.get(NOTES).get_json()["items"]) == 4
    assert len(alice.get("/api/wiki/search?q=x").get_json()["items"]) == 4


def test_notes_are_found_by_words_with_their_best_line(web: Web, alice: Person) -> None:
    written(alice, "plan.md", "# Plan\n\nThe logo is blue.\n")
    common(web, "curated/style.md", "# Style\n\nBlue is our colour.\n")
    told = alice.get("/api/wiki/search?q=blue logo").get_json()
    assert told["next"] is None
    first = told["items"][0]
    assert set(first) == {"path", "title", "line", "text", "updated"}
    assert (first["path"], first["title"], first["line"], first["text"]) == (
        "mine/plan.md", "Plan", 3, "The logo is blue.",
    )  # fmt: skip
    assert TIME.fullmatch(first["updated"])
    assert len(alice.get("/api/wiki/search?q=blue").get_json()["items"]) == 2
    assert len(alice.get("/api/wiki/search?q=blue&limit=1").get_json()["items"]) == 1
    for strange in ("%00", '"', "* OR (", "NEAR(a b)", "'; --", "%F0%9F%92%A9", "%ff", "a" * 1_000):
        assert alice.get(f"/api/wiki/search?q={strange}").status_code == 200, strange


def test_a_note_names_those_that_link_to_it(web: Web, alice: Person, bob: Person) -> None:
    common(web, "curated/all.md", "x")
    written(alice, "one.md", "see [[all]]")
    written(bob, "two.md", "see [[all]]")
    assert read(alice, "curated/all.md").get_json()["backlinks"] == ["mine/one.md"]
    assert read(bob, "curated/all.md").get_json()["backlinks"] == ["mine/two.md"]


# -- versions ---------------------------------------------------------------------------------


def test_a_history_tells_every_version(alice: Person, clock: HandClock) -> None:
    written(alice, "x.md", "0\n")
    for n in range(1, 5):
        clock.move(60)
        put(alice, "x.md", f"{n}\n", If_Match="*")
    told = alice.get("/api/wiki/history?path=x.md").get_json()
    assert (len(told["items"]), told["next"]) == (5, None)
    first = told["items"][0]
    assert set(first) == {"commit", "at", "author", "message"}
    assert (first["at"], first["author"]) == ("2026-11-20T09:04:00.000Z", "http:alice")
    assert first["message"] == "Change mine/x.md\n"
    paged, path = [], "/api/wiki/history?path=x.md&limit=2"
    following = path
    while following:
        page = alice.get(following).get_json()
        paged += page["items"]
        following = page["next"] and f"{path}&cursor={page['next']}"
        put(alice, "x.md", f"{len(paged)} more\n", If_Match="*")
    assert paged == told["items"]


def test_a_difference_is_told_between_two_versions_or_until_now(alice: Person) -> None:
    written(alice, "x.md", "one\ntwo\n")
    put(alice, "x.md", "one\n2\n", If_Match="*")
    put(alice, "x.md", "one\n2", If_Match="*")
    third, second, first = (
        one["commit"] for one in alice.get("/api/wiki/history?path=x.md").get_json()["items"]
    )
    told = alice.get(f"/api/wiki/diff?path=x.md&from={first}&to={second[:8]}").get_json()
    assert told == {
        "path": "mine/x.md",
        "diff": f"--- {first[:7]}\n+++ {second[:7]}\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
    }
    end = alice.get(f"/api/wiki/diff?path=x.md&from={second.upper()}").get_json()["diff"]
    assert end.endswith("\n-2\n+2\n\\ No newline at end of file")
    assert alice.get(f"/api/wiki/diff?path=x.md&from={third}").get_json()["diff"] == ""
    refusal(alice.get("/api/wiki/diff?path=x.md&from=1234567"), 404, "not_found")
    refusal(alice.get(f"/api/wiki/diff?path=y.md&from={first}"), 404, "not_found")


def test_an_earlier_version_is_restored_byte_for_byte(alice: Person) -> None:
    first = written(alice, "x.md", "one\r\n\x85")
    text = read(alice, "x.md").get_json()["text"]
    second = put(alice, "x.md", "two", If_Match="*").get_json()["base"]
    commit = alice.get("/api/wiki/history?path=x.md").get_json()["items"][1]["commit"]
    body = {"path": "x.md", "commit": commit[:7]}
    refusal(alice.post("/api/wiki/restore", body), 428, "precondition_required")
    told = refusal(alice.post("/api/wiki/restore", body, If_Match=f'"{first}"'), 412, "stale")
    assert told["text"] == "two"
    response = alice.post("/api/wiki/restore", body, If_Match=f'"{second}"')
    assert response.status_code == 200
    assert set(response.get_json()) == {"path", "base", "commit"}
    assert response.get_json()["base"] == first
    assert read(alice, "x.md").get_json()["text"] == text
    again = alice.post("/api/wiki/restore", body)
    assert (again.status_code, again.get_json()) == (200, {"path": "mine/x.md", "base": first})


def test_a_deleted_note_is_restored(alice: Person) -> None:
    base = written(alice, "x.md", "one")
    delete(alice, "x.md")
    removed, made = alice.get("/api/wiki/history?path=x.md").get_json()["items"]
    refusal(
        alice.post("/api/wiki/restore", {"path": "x.md", "commit": removed["commit"]}),
        404, "not_found",
    )  # fmt: skip
    body = {"path": "x.md", "commit": made["commit"]}
    refusal(alice.post("/api/wiki/restore", body, If_Match=f'"{base}"'), 412, "stale")
    response = alice.post("/api/wiki/restore", body)
    assert (response.status_code, response.get_json()["base"]) == (200, base)
    refusal(alice.post("/api/wiki/restore", {"path": "x.md", "commit": "1" * 40}), 404, "not_found")


# -- who sees what ----------------------------------------------------------------------------


def test_anothers_note_and_a_missing_one_are_the_same_404(
    web: Web, alice: Person, bob: Person
) -> None:
    base = written(alice, "secret.md", "CANARY of alice")
    commit = alice.get("/api/wiki/history?path=secret.md").get_json()["items"][0]["commit"]
    common(web, "curated/all.md", "x")
    folder = f"people/{folder_of('http:alice')}"
    bodies = set()
    for path in (
        "secret.md", "mine/secret.md", "never.md", f"{folder}/secret.md", f"{folder}/never.md",
        "people/http-nobody-12345678/x.md", "people/x", "people/../secret.md", "people/",
        "curated/secret.md",
    ):  # fmt: skip
        quoted = quote(path)
        for response in (
            read(bob, quoted),
            delete(bob, quoted),
            delete(bob, quoted, If_Match=f'"{base}"'),
            bob.get(f"/api/wiki/history?path={quoted}"),
            bob.get(f"/api/wiki/diff?path={quoted}&from={commit}"),
            bob.post("/api/wiki/restore", {"path": path, "commit": commit}),
        ):
            refusal(response, 404, "not_found")
            bodies.add(response.data)
        if path.startswith("people/"):
            refusal(put(bob, quoted, "mine now"), 404, "not_found")
        if not path.startswith("curated/"):
            response = bob.post("/api/wiki/promote", {"path": path, "to": "curated/x.md"})
            refusal(response, 404, "not_found")
            bodies.add(response.data)
    assert len(bodies) == 1
    assert [one["path"] for one in bob.get(NOTES).get_json()["items"]] == ["curated/all.md"]
    assert bob.get("/api/wiki/search?q=CANARY").get_json()["items"] == []
    assert read(alice, "secret.md").get_json()["text"] == "CANARY of alice"
    refusal(
        bob.post("/api/wiki/promote", {"path": "x.md", "to": f"{folder}/x.md"}), 404, "not_found"
    )


def test_two_people_have_notes_of_the_same_name(alice: Person, bob: Person) -> None:
    written(alice, "x.md", "of alice")
    refusal(put(bob, "x.md", "of bob", If_Match="*"), 412, "stale")
    written(bob, "x.md", "of bob")
    assert read(alice, "x.md").get_json()["text"] == "of alice"
    assert read(bob, "x.md").get_json()["text"] == "of bob"


def test_a_person_of_google_chat_finds_their_own_notes(web: Web) -> None:
    ada = web.person("google-chat:users/1001")
    write(web.mercury.notes.vault, "plan.md", "of ada", ada.id)
    assert read(ada, "plan.md").get_json()["text"] == "of ada"


def test_a_history_names_no_path_of_anybody_else(web: Web, alice: Person, bob: Person) -> None:
    written(bob, "how to secret.md", "x")
    vault = web.mercury.notes.vault
    source = f"people/{folder_of('http:bob')}/how to secret.md"
    vault.move(OPERATOR, source, "curated/how.md", By(), bare="curated")
    for person in (alice, bob):
        (one,) = person.get("/api/wiki/history?path=curated/how.md").get_json()["items"]
        assert one["message"].strip().endswith(" to curated/how.md")
        assert "people/" not in one["message"]
        assert ("secret" in one["message"]) == (person is bob)


# -- the common area --------------------------------------------------------------------------


def test_a_note_is_promoted_once_its_person_confirms_it(
    web: Web, alice: Person, bob: Person
) -> None:
    text = "---\ntags: [a]\n---\n# Plan\r\n\nÄ 会議 👩‍💻 no last line"
    base = written(alice, "plan.md", text)
    shown = asked(alice.post("/api/wiki/promote", {"path": "plan.md", "to": "curated/p/plan.md"}))
    assert set(shown) == {
        "id", "action", "state", "expires_at", "path", "to", "text", "token", "code",
    }  # fmt: skip
    assert (shown["action"], shown["state"]) == ("wiki.promote", "waiting")
    assert (shown["path"], shown["to"], shown["text"]) == (
        "mine/plan.md", "curated/p/plan.md", text,
    )  # fmt: skip
    assert TIME.fullmatch(shown["expires_at"])
    refusal(read(bob, "curated/p/plan.md"), 404, "not_found")
    (listed,) = alice.get("/api/confirmations").get_json()["items"]
    assert listed["id"] == shown["id"]
    assert {"token", "code"}.isdisjoint(listed)
    for thief in (bob, web.person("google-chat:users/1")):
        refusal(settle(thief, shown["token"]), 404, "not_found")
    refusal(read(bob, "curated/p/plan.md"), 404, "not_found")
    settled = settle(alice, shown["token"]).get_json()
    commit = git(web.mercury.notes.vault.root, "rev-parse", "main").strip()
    assert settled == {
        "id": shown["id"], "state": "done", "outcome": f"curated/p/plan.md ({commit[:7]})",
    }  # fmt: skip
    assert settle(alice, shown["token"]).get_json() == {**settled, "already": True}
    refusal(settle(alice, shown["token"], "cancel"), 409, "already_settled")
    found = read(bob, "curated/p/plan.md").get_json()
    assert (found["text"], found["base"]) == (text, base)
    file = web.mercury.notes.vault.root / "curated/p/plan.md"
    assert file.read_bytes() == text.encode()
    refusal(read(alice, "plan.md"), 404, "not_found")
    (one,) = bob.get("/api/wiki/history?path=curated/p/plan.md").get_json()["items"]
    assert (one["commit"], one["author"]) == (commit, "http:alice")
    assert is_sound(web.mercury.notes.vault)


def test_a_promotion_over_a_note_shows_the_whole_difference(
    web: Web, alice: Person, bob: Person
) -> None:
    common(web, "curated/plan.md", "one\ntwo\n")
    written(alice, "plan.md", "one\n2")
    shown = asked(alice.post("/api/wiki/promote", {"path": "plan.md", "to": "curated/plan.md"}))
    assert "text" not in shown
    assert shown["diff"] == (
        "--- now\n+++ new\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file"
    )
    assert settle(alice, shown["token"]).get_json()["state"] == "done"
    assert read(bob, "curated/plan.md").get_json()["text"] == "one\n2"


@pytest.mark.parametrize(("old", "new"), [("one", "one\n"), ("one\r\n", "one\n"), ("", "\n")])
def test_a_change_of_a_line_s_end_alone_is_shown_and_done(
    web: Web, alice: Person, old: str, new: str
) -> None:
    common(web, "curated/x.md", old)
    shown = asked(put(alice, "curated/x.md", new, If_Match="*"))
    assert shown["diff"] != ""
    assert settle(alice, shown["token"]).get_json()["state"] == "done"
    assert read(alice, "curated/x.md").get_json()["text"] == new


def test_promoting_what_says_the_same_already_takes_ones_own_away(web: Web, alice: Person) -> None:
    base = common(web, "curated/x.md", "one")
    written(alice, "x.md", "one")
    shown = asked(alice.post("/api/wiki/promote", {"path": "x.md", "to": "curated/x.md"}))
    assert settle(alice, shown["token"]).get_json()["state"] == "done"
    assert read(alice, "curated/x.md").get_json()["base"] == base
    refusal(read(alice, "x.md"), 404, "not_found")


def test_a_note_of_the_common_area_is_written_changed_and_deleted_by_confirmation(
    alice: Person, bob: Person
) -> None:
    shown = asked(put(alice, "curated/x.md", "one\n"))
    assert (shown["action"], shown["to"], shown["text"]) == ("wiki.write", "curated/x.md", "one\n")
    assert "path" not in shown
    assert settle(alice, shown["token"]).status_code == 200
    first = read(bob, "curated/x.md")
    assert first.get_json()["text"] == "one\n"

    refusal(put(bob, "curated/x.md", "two\n"), 428, "precondition_required")
    refusal(put(bob, "curated/x.md", "two\n", If_None_Match="*"), 412, "stale")
    told = refusal(put(bob, "curated/x.md", "two\n", If_Match='"other"'), 412, "stale")
    assert told["text"] == "one\n"
    same = put(bob, "curated/x.md", "one\n")
    assert (same.status_code, "commit" in same.get_json()) == (200, False)
    shown = asked(put(bob, "curated/x.md", "two\n", If_Match=first.headers["ETag"]))
    assert shown["diff"].endswith("\n-one\n+two")
    assert settle(bob, shown["token"]).status_code == 200
    assert read(alice, "curated/x.md").get_json()["text"] == "two\n"

    refusal(delete(alice, "curated/x.md", If_Match=first.headers["ETag"]), 412, "stale")
    shown = asked(delete(alice, "curated/x.md"))
    assert (shown["action"], shown["diff"].endswith("\n-two")) == ("wiki.delete", True)
    assert read(bob, "curated/x.md").status_code == 200
    assert settle(alice, shown["token"]).status_code == 200
    refusal(read(bob, "curated/x.md"), 404, "not_found")
    refusal(delete(alice, "curated/x.md"), 404, "not_found")

    versions = bob.get("/api/wiki/history?path=curated/x.md").get_json()["items"]
    assert [one["author"] for one in versions] == ["http:alice", "http:bob", "http:alice"]
    body = {"path": "curated/x.md", "commit": versions[2]["commit"]}
    shown = asked(bob.post("/api/wiki/restore", body))
    assert (shown["action"], shown["text"]) == ("wiki.write", "one\n")
    assert settle(bob, shown["token"]).status_code == 200
    assert read(alice, "curated/x.md").get_json()["base"] == first.get_json()["base"]


@pytest.mark.parametrize("what", ["promote", "write", "new", "delete"])
def test_a_target_that_changed_meanwhile_is_409_and_nothing_is_done(
    web: Web, alice: Person, what: str
) -> None:
    if what != "new":
        common(web, "curated/x.md", "one")
    written(alice, "x.md", "mine")
    shown = asked(
        {
            "promote": lambda: alice.post(
                "/api/wiki/promote", {"path": "x.md", "to": "curated/x.md"}
            ),
            "write": lambda: put(alice, "curated/x.md", "two", If_Match="*"),
            "new": lambda: put(alice, "curated/x.md", "two"),
            "delete": lambda: delete(alice, "curated/x.md"),
        }[what]()
    )
    common(web, "curated/x.md", "by the operator")
    for _ in range(2):
        refusal(settle(alice, shown["token"]), 409, "changed")
    assert read(alice, "curated/x.md").get_json()["text"] == "by the operator"
    assert read(alice, "x.md").get_json()["text"] == "mine"


def test_what_was_shown_is_promoted_and_a_later_change_stays_ones_own(
    alice: Person, bob: Person
) -> None:
    written(alice, "x.md", "as shown")
    shown = asked(alice.post("/api/wiki/promote", {"path": "x.md", "to": "curated/x.md"}))
    put(alice, "x.md", "changed since", If_Match="*")
    assert settle(alice, shown["token"]).get_json()["state"] == "done"
    assert read(bob, "curated/x.md").get_json()["text"] == "as shown"
    assert read(alice, "x.md").get_json()["text"] == "changed since"


def test_a_cancelled_or_expired_change_is_never_made(alice: Person, clock: HandClock) -> None:
    shown = asked(put(alice, "curated/x.md", "one"))
    told = settle(alice, shown["token"], "cancel").get_json()
    assert (told["state"], told["outcome"]) == ("cancelled", "cancelled")
    again = settle(alice, shown["token"], "cancel").get_json()
    assert again == {**told, "already": True}
    refusal(settle(alice, shown["token"]), 409, "already_settled")
    late = asked(put(alice, "curated/x.md", "one"))
    clock.move(901)
    refusal(settle(alice, late["token"]), 410, "expired")
    refusal(read(alice, "curated/x.md"), 404, "not_found")


def test_a_promotion_is_refused_with_the_field_that_is_wrong(web: Web, alice: Person) -> None:
    written(alice, "x.md", "x")
    common(web, "curated/all.md", "x")
    for body, pointer, code in (
        ({"path": "x.md"}, "/to", "invalid_field"),
        ({"path": "x.md", "to": 5}, "/to", "invalid_field"),
        ({"path": "x.md", "to": "curated/x.md", "text": "y"}, "/text", "unknown_field"),
        ({"path": "x", "to": "curated/x.md"}, "/path", "invalid_path"),
        ({"path": "curated/all.md", "to": "curated/x.md"}, "/path", "invalid_path"),
        ({"path": "x.md", "to": "mine/y.md"}, "/to", "invalid_path"),
        ({"path": "x.md", "to": "curated/../y.md"}, "/to", "invalid_path"),
        ({"path": "x.md", "to": f"curated/{'y' * 99_999}.md"}, "/to", "invalid_path"),
    ):
        told = refusal(alice.post("/api/wiki/promote", body), 422, code)
        assert told["pointer"] == pointer, body
    assert alice.get("/api/confirmations").get_json()["items"] == []


# -- confirmations outside a conversation -----------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_was_asked_for_outside_a_conversation_is_settled_into_none(
    make: Make, settings: Settings, clock: HandClock, request: pytest.FixtureRequest, kind: str
) -> None:
    environ = {"MERCURY_DATA": str(settings.mercury_data)}
    if kind == "postgres":
        environ["DATABASE_URL"] = request.getfixturevalue("postgres").url()
        environ["MERCURY_SECRET"] = "a-secret-of-the-tests-that-is-long-enough"
    web = Web(make(load(environ, None), model=Echo()))
    alice = web.person("alice")
    alice.say("hi", "c")
    before = alice.get("/api/conversations/c/messages").get_data()
    for decision in ("confirm", "cancel"):
        shown = asked(put(alice, f"curated/{decision}.md", "x"))
        assert settle(alice, shown["token"], decision).status_code == 200
        assert settle(alice, shown["token"], decision).get_json()["already"] is True
    assert read(alice, "curated/confirm.md").status_code == 200
    refusal(read(alice, "curated/cancel.md"), 404, "not_found")

    lost = asked(put(alice, "curated/lost.md", "x"))
    confirmations = web.mercury.stores.confirmations
    confirmations.begin(confirmations.get(lost["id"], alice.id), "confirm")
    clock.move(31)
    web.mercury.settling.finish_running()
    assert read(alice, "curated/lost.md").status_code == 200
    assert settle(alice, lost["token"]).get_json()["already"] is True

    assert alice.get("/api/conversations/c/messages").get_data() == before
    assert len(alice.get("/api/conversations").get_json()["items"]) == 1
    counted = web.mercury.stores.database.read(
        lambda tx: tx.row("SELECT count(*) FROM messages WHERE role = 'settled'")
    )
    assert counted == (0,)
    assert alice.say("and now?", "c")["answer"] == "You said: and now?"


def test_a_code_typed_in_a_conversation_is_none_of_such_a_confirmations_business(
    alice: Person,
) -> None:
    alice.say("hi", "c")
    shown = asked(put(alice, "curated/x.md", "one"))
    for conversation in ("c", "never", None):
        for code in (shown["code"], *(["AAAA-AAAA"] * 6)):
            told = alice.turn(f"confirm {code}", conversation).get_json()
            assert told["answer"] == words.NOTHING_TO_CONFIRM
    assert settle(alice, shown["token"]).get_json()["state"] == "done"


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "x", "x.txt", ".md", "x.md/", "a/", "curated/", "curated", "mine/", "curated/x", "../x.md",
        "mine/../curated/x.md", "curated/../../x.md", "%2e%2e/x.md", "%2e%2e%2fx.md",
        "..%2f..%2fetc%2fpasswd", "..%5cx.md", "a%5cb.md", "%00.md", "x%00.md", "x.md%00",
        ".git/config", ".git/x.md", ".GIT/x.md", "git~1/x.md", "a/.git/x.md", ".gitmodules",
        "a//x.md", "./x.md", "a/./x.md", "C:/x.md", "con.md", "aux/x.md", "x.md%20", "%20x.md",
        "a.%2fx.md", "a%e2%80%8bb.md", "a%e2%80%aeb.md", "%ef%bc%8e%ef%bc%8e/x.md",
        "a%ef%bc%8fx.md", "%e2%80%a4%e2%80%a4/x.md", "%ff.md", "%c3.md", "%ed%a0%80.md", "a%09.md",
        "a/b/c/d/e/x.md", "x.md/y.md", "x" * 181 + ".md", "x" * 700 + ".md", "y" * 9_000 + ".md",
        "a%CC%81" * 400 + ".md", "x%3f.md", "%7f.md", "%3Cscript%3E.md", "x.MD",
    ],
)  # fmt: skip
@pytest.mark.parametrize("area", ["", "mine/", "curated/"])
def test_a_path_that_no_note_can_have_is_422_and_writes_nothing(
    web: Web, alice: Person, path: str, area: str
) -> None:
    for response in (
        read(alice, area + path),
        put(alice, area + path, "x"),
        put(alice, area + path, "x", If_Match="*"),
        delete(alice, area + path),
    ):
        told = response.get_json()
        assert response.content_type == PROBLEM
        assert response.status_code == 422, told
        assert (told["code"], told["pointer"]) == ("invalid_path", "/path")
        assert told["detail"]
    assert not web.mercury.notes.vault.root.exists()


@pytest.mark.parametrize("path", ["", "/x.md", "%2fx.md", "%0ax.md", "x%0a.md", "a%0d%0aX: y.md"])
def test_an_address_that_is_no_notes_is_a_problem(alice: Person, path: str) -> None:
    for response in (read(alice, path), put(alice, path, "x"), delete(alice, path)):
        assert response.status_code in (404, 405, 422)
        assert response.content_type == PROBLEM


@pytest.mark.parametrize(
    "path", ["../x.md", "a\\b.md", "a\x00b.md", "", "\ud800.md", "a\nb.md", "é" * 900 + ".md"]
)
def test_a_path_in_a_body_or_a_query_is_looked_at_as_well(alice: Person, path: str) -> None:
    for route, body in (
        ("restore", {"path": path, "commit": "1234567"}),
        ("promote", {"path": path, "to": "curated/x.md"}),
    ):
        told = refusal(
            alice.request(
                "POST", f"/api/wiki/{route}", data=json.dumps(body),
                content_type="application/json",
            ),
            422, "invalid_path",
        )  # fmt: skip
        assert told["pointer"] == "/path"
    asked_for = quote(path, errors="replace") or "%20"
    for route in ("history?", "diff?from=1234567&"):
        response = alice.get(f"/api/wiki/{route}path={asked_for}")
        assert response.status_code in (404, 422)
        assert response.content_type == PROBLEM


def test_a_link_in_the_folder_leads_nowhere(web: Web, alice: Person) -> None:
    common(web, "curated/policy.md", "policy")
    written(alice, "x.md", "x")
    root = web.mercury.notes.vault.root
    (root / "people" / folder_of("http:alice") / "link").symlink_to("../../curated")
    refusal(put(alice, "link/policy.md", "mine"), 422, "invalid_path")
    refusal(read(alice, "link/policy.md"), 404, "not_found")
    assert (root / "curated/policy.md").read_text() == "policy"


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        (f"{NOTES}?area=people", "/area"),
        (f"{NOTES}?area=", "/area"),
        (f"{NOTES}?area=curated/", "/area"),
        (f"{NOTES}?limit=0", "/limit"),
        (f"{NOTES}?limit=201", "/limit"),
        (f"{NOTES}?cursor=junk", "/cursor"),
        (f"{NOTES}?cursor=", "/cursor"),
        (f"{NOTES}?limit=1&limit=1", "/limit"),
        ("/api/wiki/search", "/q"),
        ("/api/wiki/search?q=%20", "/q"),
        (f"/api/wiki/search?q={'x' * 1001}", "/q"),
        ("/api/wiki/search?q=x&limit=ten", "/limit"),
        ("/api/wiki/history", "/path"),
        ("/api/wiki/history?path=x.md&cursor=junk", "/cursor"),
        ("/api/wiki/diff?from=1234567", "/path"),
        ("/api/wiki/diff?path=x.md", "/from"),
        ("/api/wiki/diff?path=x.md&from=123", "/from"),
        ("/api/wiki/diff?path=x.md&from=main", "/from"),
        ("/api/wiki/diff?path=x.md&from=1234567&to=", "/to"),
        ("/api/wiki/diff?path=x.md&from=1234567&to=HEAD%5E", "/to"),
    ],
)
def test_a_wrong_parameter_is_422_with_its_name(alice: Person, path: str, pointer: str) -> None:
    written(alice, "x.md", "x")
    assert refusal(alice.get(path), 422, "invalid_field")["pointer"] == pointer


def test_a_cursor_of_another_list_is_422(alice: Person) -> None:
    for name in ("x", "y"):
        written(alice, f"{name}.md", name)
    put(alice, "x.md", "more", If_Match="*")
    cursor = alice.get(f"{NOTES}?limit=1").get_json()["next"]
    refusal(alice.get(f"/api/wiki/history?path=x.md&cursor={cursor}"), 422, "invalid_field")
    cursor = alice.get("/api/wiki/history?path=x.md&limit=1").get_json()["next"]
    refusal(alice.get(f"{NOTES}?cursor={cursor}"), 422, "invalid_field")


@pytest.mark.parametrize("commit", ["", "123456", "1" * 41, "main", "1234567\n", "--all", 7])
def test_what_is_no_commit_is_422(alice: Person, commit: Any) -> None:
    response = alice.post("/api/wiki/restore", {"path": "x.md", "commit": commit})
    assert refusal(response, 422, "invalid_field")["pointer"] == "/commit"


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_needs_a_token_and_knows_its_parameters(
    web: Web, alice: Person, method: str, path: str
) -> None:
    response = web.request(method, path)
    refusal(response, 401, "unauthenticated")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    response = alice.request(method, f"{path}{'&' if '?' in path else '?'}colour=blue")
    assert refusal(response, 422, "unknown_field")["pointer"] == "/colour"


def test_another_method_is_405(alice: Person) -> None:
    for method, path, allowed in (
        ("POST", NOTES, {"GET"}),
        ("POST", f"{NOTES}/x.md", {"GET", "PUT", "DELETE"}),
        ("PATCH", f"{NOTES}/x.md", {"GET", "PUT", "DELETE"}),
        ("GET", "/api/wiki/promote", {"POST"}),
    ):
        response = alice.request(method, path)
        refusal(response, 405, "method_not_allowed")
        assert allowed <= set(response.headers["Allow"].split(", "))


def test_no_answer_is_html_and_no_text_of_anybody_is_logged(
    alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    written(alice, "CANARY-in-a-path.md", "CANARY-in-a-note")
    alice.get("/api/wiki/search?q=CANARY-in-a-query")
    asked(put(alice, "curated/CANARY.md", "CANARY-in-the-common-area"))
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE"):
        for _, path in ROUTES:
            response = alice.request(method, path)
            assert "html" not in response.headers.get("Content-Type", ""), (method, path)
            assert response.status_code < 500
    assert "CANARY" not in caplog.text
    assert alice.token not in caplog.text


def test_what_a_client_tidies_away_is_refused_on_the_wire(web: Web, alice: Person) -> None:
    written(alice, "x.md", "x")
    with listening(web) as port:
        for path, status in (
            ("x.md", 200), ("mine%2Fx.md", 200), ("../x.md", 422), ("../../turn", 422),
            ("a/../x.md", 422), ("./x.md", 422), ("//x.md", 404), ("x.md?", 200),
            ("%ff.md", 422), ("%c3.md", 422), ("%ed%a0%80.md", 422), ("%2fx.md", 404),
        ):  # fmt: skip
            head = f"GET {NOTES}/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.token}"
            assert spoken(port, f"{head}\r\nConnection: close\r\n\r\n".encode()) == status, path


# -- outages ----------------------------------------------------------------------------------


def ask_everything(person: Person, commit: str) -> list[TestResponse]:
    """One request of every kind."""
    return [
        person.get(NOTES), read(person, "x.md"), put(person, "x.md", "y", If_Match="*"),
        put(person, "new.md", "y"), put(person, "curated/x.md", "y"), delete(person, "x.md"),
        person.get("/api/wiki/search?q=x"), person.get("/api/wiki/history?path=x.md"),
        person.get(f"/api/wiki/diff?path=x.md&from={commit}"),
        person.post("/api/wiki/restore", {"path": "x.md", "commit": commit}),
        person.post("/api/wiki/promote", {"path": "x.md", "to": "curated/x.md"}),
    ]  # fmt: skip


def test_a_wiki_that_is_gone_is_503_and_comes_back_and_turns_are_answered_meanwhile(
    web: Web, alice: Person
) -> None:
    written(alice, "x.md", "x")
    shown = asked(put(alice, "curated/x.md", "one"))
    (one,) = alice.get("/api/wiki/history?path=x.md").get_json()["items"]
    assert len(alice.get(NOTES).get_json()["items"]) == 1
    repository = web.mercury.notes.vault.root / ".git"
    shutil.move(repository, web.mercury.settings.mercury_data / "elsewhere")
    for response in ask_everything(alice, one["commit"]):
        told = refusal(response, 503, "wiki_down")
        assert int(response.headers["Retry-After"]) > 0
        assert str(web.mercury.settings.mercury_data) not in json.dumps(told)
    refusal(settle(alice, shown["token"]), 503, "store_down")
    answer = alice.say("hello")
    assert answer["answer"] == "You said: hello"
    assert [notice["store"] for notice in answer["notices"]] == ["wiki"]
    shutil.move(web.mercury.settings.mercury_data / "elsewhere", repository)
    assert read(alice, "x.md").get_json()["text"] == "x"
    assert put(alice, "x.md", "y", If_Match="*").status_code == 200


def test_a_damaged_wiki_is_503(web: Web, alice: Person) -> None:
    base = written(alice, "x.md", "x")
    repository = web.mercury.notes.vault.root / ".git"
    loose = repository / "objects" / base[:2] / base[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"no object at all")
    response = read(alice, "x.md")
    refusal(response, 503, "wiki_down")
    assert alice.say("hello")["answer"] == "You said: hello"


def test_an_archive_that_is_away_is_503(web: Web, alice: Person) -> None:
    written(alice, "x.md", "x")
    lose_archive(web.mercury)
    for method, path in ROUTES:
        response = alice.request(method, path)
        refusal(response, 503, "store_down")


def test_a_note_that_cannot_be_shared_yet_says_so_and_is_seen_from_another_machine(
    make: Make, tmp_path: Path, closing: ExitStack
) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    mercury = make(model=Echo())
    own, stores = mercury.notes, mercury.stores
    waiting = WaitingNotes(stores.database, stores.clock, random_id)
    people: list[Person] = []
    for name in ("one", "two"):
        mercury.notes = Machine(tmp_path / name, str(tmp_path / "remote.git"), waiting)
        people.append(Web(mercury).person("alice"))
        closing.callback(mercury.notes.vault.close)
    mercury.notes = own
    here, there = people
    shared = put(here, "x.md", "one")
    assert (shared.status_code, "unsaved" in shared.get_json()) == (201, False)
    (tmp_path / "remote.git").rename(tmp_path / "gone.git")
    kept = put(here, "y.md", "two")
    assert (kept.status_code, kept.get_json()["unsaved"]) == (201, True)
    assert read(there, "y.md").get_json()["text"] == "two"
    refusal(put(there, "y.md", "three"), 428, "precondition_required")


def test_before_the_first_note_there_is_nothing_and_nothing_is_made(
    web: Web, alice: Person
) -> None:
    assert alice.get(NOTES).get_json() == {"items": [], "next": None}
    assert alice.get("/api/wiki/search?q=x").get_json() == {"items": [], "next": None}
    for response in (
        read(alice, "x.md"), delete(alice, "x.md"), delete(alice, "curated/x.md"),
        alice.get("/api/wiki/history?path=x.md"),
        alice.get("/api/wiki/diff?path=x.md&from=1234567"),
        alice.post("/api/wiki/restore", {"path": "x.md", "commit": "1234567"}),
        alice.post("/api/wiki/promote", {"path": "x.md", "to": "curated/x.md"}),
    ):  # fmt: skip
        refusal(response, 404, "not_found")
    assert not web.mercury.notes.vault.root.exists()
