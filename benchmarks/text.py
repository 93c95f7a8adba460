"""What verifying an event and making an answer fit for Google Chat cost, in CPU time."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, Sizes, bounded
from bot.chat.split import split
from bot.chat.verify import Certificates, Fetched, Verifier
from bot.links import LinkRule
from bot.markdown import to_chat
from tests.fakes import google_keys
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer

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


def _cost(work: Callable[[], object], rounds: int) -> float:
    """The median CPU time of a run, in seconds."""
    work()
    taken = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)
