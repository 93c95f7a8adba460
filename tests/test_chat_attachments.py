"""Attachments: fetched by `media.download` only, read within bounds, and never in the way."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bot import pdf, words
from bot.chat import attachments
from bot.chat.attachments import cut, material
from tests.fakes import model_server as fake
from tests.hostile import Rig
from tests.shared import needs_shared

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
pytestmark = needs_shared


@pytest.fixture(params=["addon", "classic"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        made = Rig(tmp_path, str(request.param), stack)
        yield made.start()
        assert made.chat.violations == []


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.chat.attachments.PAUSE_S", 0.0)


def a_pdf(text: str) -> bytes:
    """A PDF of one page with a line of text."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length " + str(len(stream)).encode() + b" >>\nstream\n" + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = io.BytesIO(b""), []
    out.write(b"%PDF-1.4\n")
    for n, one in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{n} 0 obj\n".encode() + one + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.writelines(f"{place:010d} 00000 n \n".encode() for place in places)
    out.write(
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF".encode()
    )
    return out.getvalue()


def attach(rig: Rig, text: str, *files: tuple[str, str, bytes | None], **more: Any) -> None:
    """Sends a message with files; one without content is not there."""
    body = rig.event({"text": text})
    told = []
    for n, (name, mime, content) in enumerate(files):
        if content is not None:
            rig.chat.media[f"res/{n}="] = content
        told.append({
            "contentName": name, "contentType": mime, "source": "UPLOADED_CONTENT",
            "attachmentDataRef": {"resourceName": f"res/{n}="},
            "downloadUri": "https://evil.example/d", "thumbnailUri": "https://evil.example/t",
        })  # fmt: skip
    message = (
        body["message"] if rig.form == "classic" else body["chat"]["messagePayload"]["message"]
    )
    message["attachment"] = told
    message.update(more)
    assert rig.post(body) == 200
    rig.rest()


def asked(rig: Rig) -> Any:
    """What the model got as the person's message."""
    return rig.model.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("name", "mime", "content"),
    [
        ("notes.md", "text/markdown", b"# Plan\n- ship it"),
        ("notes.md", "application/octet-stream", b"\xef\xbb\xbf# Plan\n- ship it"),
        ("plan.csv", "text/csv", b"what,when\nship it,Friday"),
        ("plan.json", "application/json", b'{"plan": "ship it"}'),
        ("plan.pdf", "application/pdf", a_pdf("ship it")),
        ("plan.txt", "text/plain", "ship it, año".encode("latin-1")),
        ("plan.txt", "text/plain", "ship it".encode("utf-16")),
    ],
)
def test_a_file_s_text_is_quoted_material(rig: Rig, name: str, mime: str, content: bytes) -> None:
    rig.model.script = [fake.text("Read.")]
    attach(rig, "what does it say?", (name, mime, content))
    told = asked(rig)
    assert told.startswith(f"(attached file {name}:\n> ")
    assert "ship it" in told
    assert told.endswith(")\nwhat does it say?")
    assert all(line.startswith("> ") for line in told.splitlines()[1:-2])
    assert rig.replies() == ["Read."]
    assert rig.stored() == ["what does it say?"]
    assert [r.query["alt"] for r in rig.chat.calls("download")] == [["media"]]


def test_what_was_read_is_remembered_as_a_call_and_not_its_text(rig: Rig) -> None:
    rig.model.script = [fake.text("Read.")]
    attach(rig, "read", ("a.txt", "text/plain", b"the secret plan"))
    assert rig.rows("SELECT name, arguments, outcome, reads FROM tool_calls") == [
        ("attachment_read", '{"name":"a.txt"}', "ok", 1)
    ]
    rig.model.script = [fake.text("Yes.")]
    rig.tell("and?")
    assert "the secret plan" not in str(rig.model.requests[-1])
    assert "attachment_read" in str(rig.model.requests[-1])


def test_an_image_goes_to_the_model_as_it_is(rig: Rig) -> None:
    rig.model.script = [fake.text("A dot.")]
    attach(rig, "what is it?", ("dot.png", "image/png", PNG))
    text, image = asked(rig)
    assert text["text"].endswith("what is it?")
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert image == {"type": "image_url", "image_url": {"url": url}}
    assert rig.replies() == ["A dot."]


def test_a_model_that_takes_no_images_answers_the_text(rig: Rig) -> None:
    rig.model.script = [fake.status(400, "image input is not supported"), fake.text("No idea.")]
    attach(rig, "what is it?", ("dot.png", "image/png", PNG))
    assert asked(rig).endswith("what is it?")
    assert "which you cannot see" in asked(rig)
    assert rig.replies() == [f"No idea.\n\n*{words.NO_IMAGES}*"]


def test_one_file_that_fails_does_not_take_the_others_or_the_text(rig: Rig) -> None:
    rig.model.script = [fake.text("Done.")]
    attach(
        rig, "read both", ("gone.txt", "text/plain", None), ("b.txt", "text/plain", b"second"),
        ("c.bin", "application/octet-stream", b"\0\1\2\xff"),
    )  # fmt: skip
    assert "second" in asked(rig)
    assert rig.replies() == [
        "Done.\n\n*"
        + words.attachment_failed("gone.txt", attachments.NOT_FETCHED)
        + "*\n*"
        + words.attachment_failed("c.bin", attachments.ANOTHER_KIND)
        + "*"
    ]


def test_a_file_of_drive_is_said_not_to_be_readable(rig: Rig) -> None:
    from tests.shared import load

    rig.post(load(f"google-chat/{rig.form}/message_with_drive_attachment.json"))
    rig.rest()
    (said,) = rig.replies()
    assert "Google Drive" in said
    assert rig.chat.calls("download") == []


def test_a_message_that_is_only_a_file_is_answered(rig: Rig) -> None:
    rig.model.script = [fake.text("Read.")]
    attach(rig, "", ("a.txt", "text/plain", b"words"))
    assert rig.replies() == ["Read."]


@pytest.mark.parametrize("how", ["cut", "cut_after", "error", "no_json"])
def test_a_download_is_tried_again(rig: Rig, how: Any) -> None:
    rig.model.script = [fake.text("Read.")]
    if how != "no_json":
        rig.chat.fail("download", how=how)
    attach(rig, "read", ("a.txt", "text/plain", b"words"))
    assert "words" in asked(rig)


def test_an_access_token_that_ran_out_is_fetched_again(rig: Rig) -> None:
    rig.tell("hello")
    rig.chat.revoke_tokens()
    rig.model.script = [fake.text("Read.")]
    attach(rig, "read", ("a.txt", "text/plain", b"words"))
    assert "words" in asked(rig)


def test_files_are_limited_in_size_and_number(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.chat.attachments.FILE_BYTES", 1_000)
    monkeypatch.setattr("bot.chat.attachments.FILES", 2)
    rig.model.script = [fake.text("Read.")]
    attach(
        rig, "read", ("big.txt", "text/plain", b"x" * 1_001), ("a.txt", "text/plain", b"words"),
        ("third.txt", "text/plain", b"third"),
    )  # fmt: skip
    assert "words" in asked(rig)
    assert len(rig.chat.calls("download")) == 2
    assert attachments.TOO_BIG in rig.replies()[0]
    assert attachments.TOO_MANY in rig.replies()[0]


def test_a_file_s_name_mentions_nobody(rig: Rig) -> None:
    rig.model.script = [fake.text("Done.")]
    attach(rig, "read", ("<users/all> *x* [y](https://evil.example)", "text/plain", None))
    assert "<users/" not in rig.replies()[0]
    assert "](https://evil.example)" not in rig.replies()[0].replace("\\]", "")


def test_long_texts_are_cut_with_a_word() -> None:
    assert cut("x" * 20_000, 40_000) == "x" * 20_000
    assert cut("x" * 20_001, 40_000).endswith("[… 1 more characters of the file are left out …]")
    assert len(cut("x" * 20_000, 100)) < 200


@pytest.mark.parametrize(
    ("name", "mime", "content", "why"),
    [
        ("a.zip", "application/zip", b"PK\x03\x04" + b"\0" * 50, attachments.ANOTHER_KIND),
        ("a.txt", "text/plain", b"  \n", attachments.NO_TEXT),
        ("a.pdf", "application/pdf", b"%PDF-1.4\nbroken", attachments.ANOTHER_KIND),
        ("a.pdf", "application/pdf", a_pdf(""), attachments.NO_TEXT),
        ("a.png", "image/png", PNG + b"\0" * 5_000_000, attachments.IMAGE_TOO_BIG),
        ("", "", b"\xff\xfe\xfd\0", attachments.ANOTHER_KIND),
    ],
)
def test_what_cannot_be_read_says_why(name: str, mime: str, content: bytes, why: str) -> None:
    assert material(name, mime, content).why == why


def test_an_image_is_known_by_its_first_bytes_alone() -> None:
    assert material("a.txt", "text/plain", PNG).image_url.startswith("data:image/png;base64,")
    assert material("a.png", "image/png", b"just text").text == "just text"


def test_a_pdf_that_takes_too_long_costs_its_own_process_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pdf, "SECONDS", -4.99)
    assert pdf.text_of(a_pdf("x")) is None
