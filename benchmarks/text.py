"""What texts cost, in CPU time: an event, an answer for Google Chat, texts made to take long."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from benchmarks.figures import Figure, Sizes, bounded
from bot.chat.split import split
from bot.chat.verify import Certificates, Fetched, Verifier
from bot.http.strict import NotStrict, loads
from bot.links import LinkRule
from bot.logs import Redactor
from bot.markdown import to_chat
from memory import terms
from memory.text import clean_for_model, is_blank, mend
from tests import floods
from tests.fakes import google_keys
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from wiki import note
from wiki.merge import merge

MILLI = 1e3
CHARS = 30_000
ANSWER = """## What was decided

The logo will be green, and the ship leaves on Friday if the weather holds. Ada said that the
crates are to be in the hall by Thursday evening, since the **forklift** is needed elsewhere.

1. Crates are labelled by Ben and counted twice before they leave the hall for the ship.
2. The hall is opened at seven in the morning by whoever has the *keys* on that day.
3. Everything else is written down in `harbour.md`, which is kept by Ada.

```python
for crate in crates:
    print(crate.label, crate.weight)
```

| crate | weight |
|---|--:|
| lamps | 12 |

Nothing else has changed since last week. The hall is cold in the morning, so whoever counts the
crates should bring gloves, and the lights are switched on at the door to the left of the stairs.
If the driver is late, Ben waits until eight and then calls the office, where somebody has the
number of the haulier and of the harbour master. What does not fit on the first ship goes with the
second one on Monday, which has room enough for thirty crates of the larger kind.

See [the plan](https://a.example.test/plan) for what comes afterwards, and for whom to ask.

"""
"""An answer as models write them: mostly prose, a list, code, a table and a link."""


def measure(sizes: Sizes) -> Iterator[Figure]:
    """Verification with cached certificates; normalising and splitting; the rule of links."""
    rounds = sizes.of(200, 50)
    body = json.dumps({"k1": google_keys.certificate(google_keys.ADDON)}).encode()
    certificates = Certificates("https://certs.example.test", lambda _: Fetched(body, {}))
    verifier = Verifier("addon", AUDIENCE, PROJECT, certificates)
    header = [f"Bearer {Signer().addon()}"]
    verified = _cost(lambda: verifier.verify(header), rounds)
    yield bounded("verifying an event", verified * MILLI, 0.2, "ms", "cached certificates")
    text = (ANSWER * (CHARS // len(ANSWER) + 1))[:CHARS]
    cost = _cost(lambda: split(to_chat(text)), rounds // 10)
    yield bounded("normalising and splitting 30,000 characters", cost * MILLI, 20, "ms")
    rule = LinkRule([], lambda host: ["https://a.example.test/plan"])
    cost = _cost(lambda: rule.clean(text), rounds // 10)
    yield bounded("the rule of links on 30,000 characters", cost * MILLI, 30, "ms", "our own mark")
    for name, mark_s, works in _floods():
        worst = max(_once(work) for work in works)
        yield bounded(name, worst, mark_s, "s", "the worst of many; our own mark")


def _floods() -> Iterator[tuple[str, float, list[Callable[[], object]]]]:
    """Texts made to take time, by what takes them, with the seconds for each."""
    text = floods.repeated
    yield "splitting a hostile megabyte", 1.0, [
        partial(split, flood) for flood in floods.SPLIT.values()
    ]  # fmt: skip
    yield "normalising 40,000 hostile characters", 5.0, [
        partial(to_chat, text(unit, floods.MARKDOWN_CHARS)) for unit in floods.MARKDOWN
    ]  # fmt: skip
    yield "refusing a hostile megabyte of JSON", 2.0, [
        partial(_refused, body) for body in floods.JSON
    ]  # fmt: skip
    redactor = Redactor(("opensesame",))
    yield "redacting a hostile mebibyte", 3.0, [
        partial(redactor, text(unit)) for unit in floods.SECRETS
    ]  # fmt: skip
    yield "cleaning a hostile mebibyte", 2.0, [
        partial(_cleaned, text(unit, floods.MEBIBYTE // 4)) for unit in floods.INVISIBLE
    ]  # fmt: skip
    yield "cutting 500,000 characters into terms", 2.0, [
        partial(terms.tokens, "e" + text(unit, 500_000)) for unit in floods.TERMS
    ]  # fmt: skip
    yield "reading a hostile note", 2.0, [
        partial(_read_note, flood) for flood in floods.NOTES.values()
    ]  # fmt: skip
    yield "merging a hostile note", 2.0, [
        partial(merge, *("".join(lines)[:20_000].encode() for lines in versions))
        for versions in floods.LINES.values()
    ]  # fmt: skip


def _read_note(text: str) -> None:
    note.parse(text)
    note.title_of(text, "x.md")
    note.links(text)


def _refused(body: bytes) -> None:
    with suppress(NotStrict):
        loads(body)


def _cleaned(text: str) -> None:
    clean_for_model(mend(text))
    is_blank(text)


def _once(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _cost(work: Callable[[], object], rounds: int) -> float:
    """The median CPU time of a run, in seconds."""
    work()
    taken = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)
