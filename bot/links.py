"""Which links of an answer go out as links. Pure.

A model can be talked into an address that carries away what it knows. So a link stays one only
when the whole address was typed by a person in the conversation, or stands literally in a note
or tool result of the turn, or its host is ours or on the operator's list; of any other the
label and the host are shown, without scheme, path or query. Code is left alone: it is no link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from markdown_it.token import Token

from bot.markdown import Style, host_of, parser, render

Texts = Callable[[str], Iterable[str]]
"""The texts in which an address of that host may stand."""

_ADDRESS = re.compile(
    r"""(?:[a-z][a-z0-9+.-]{0,20}:)?//[^\s<>"\\`|]+  # with a scheme, or as one calls one's own
    |mailto:[^\s<>"\\`|]+
    |(?<![\w@./-])www\.[^\s<>"\\`|]+
    |(?<![\w@./-])(?:[\w-]+\.)+[^\W\d_]{2,24}(?::\d{1,5})?[/?][^\s<>"\\`|]*""",
    re.IGNORECASE | re.VERBOSE,
)
_MAY_LINK = re.compile(r"//|www\.|mailto:|\.[^\W\d_]{2,24}[/?:]|[&\\][^\s]|\]\(|\]:", re.IGNORECASE)
"""Text without any of this holds no address, however it is read."""
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SANE = re.compile(r"[^\s\\\x00-\x1f]+")
_TRIMMED = 16
"""How many marks after an address are taken for the sentence's."""
_AFTER = ".,;:!?'*_~…。，、；：！？』」”’"


def may_link(text: str) -> bool:
    """Whether a text may hold an address; when not, nothing has to be looked at."""
    return _MAY_LINK.search(text) is not None


class LinkRule:
    """The rule for one answer.

    Args:
        hosts: the operator's list, `*` for all, and our own.
        texts: where an address may stand that somebody vouches for.
    """

    def __init__(self, hosts: Iterable[str], texts: Texts) -> None:
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts)
        self._texts = texts
        self._vouched: dict[str, frozenset[str]] = {}
        self._style = Style(False, self._address, self._text)

    def clean(self, markdown: str) -> str:
        """The text with every link that may not go out turned into its label and host.

        Blocks without such a link come back word for word.
        """
        if "*" in self._hosts or not may_link(markdown):
            return markdown
        env: dict[str, dict[str, dict[str, object]]] = {}
        text = markdown.replace("\r\n", "\n").replace("\r", "\n")
        tokens, lines = parser().parse(text, env), text.split("\n")
        changes = [*self._blocks(tokens, lines), *self._definitions(env)]
        if not changes:
            return markdown
        for start, end, written in sorted(changes, reverse=True):
            lines[start:end] = [] if written is None else written.split("\n")
        return "\n".join(lines)

    def allows(self, address: str) -> bool:
        """Whether an address may go out whole."""
        host = host_of(address).lower().rstrip(".")
        if host in self._hosts and _SANE.fullmatch(address) and "@" not in address.split("?")[0]:
            return True
        if host not in self._vouched:
            self._vouched[host] = frozenset(
                _canonical(found)
                for text in self._texts(host)
                for _, _, found in addresses(_COMMENT.sub("", text))
            )
        return _canonical(address) in self._vouched[host]

    def _blocks(
        self, tokens: list[Token], lines: list[str]
    ) -> Iterator[tuple[int, int, str | None]]:
        """The blocks that hold a forbidden link: first and last line, and what stands there."""
        first = 0
        for n, token in enumerate(tokens):
            if token.level == 0 and token.nesting >= 0:
                first = n
            if token.level > 0 or token.nesting > 0 or tokens[first].map is None:
                continue
            block = tokens[first : n + 1]
            if any(self._forbids(inline) for part in block for inline in part.children or ()):
                start, end = tokens[first].map or (0, 0)
                while end > start and not lines[end - 1].strip():
                    end -= 1
                yield start, end, render(block, lines, self._style)

    def _definitions(
        self, env: dict[str, dict[str, dict[str, object]]]
    ) -> Iterator[tuple[int, int, str | None]]:
        for definition in [*env.get("references", {}).values(), *env.get("duplicate_refs", [])]:
            place = definition.get("map") if isinstance(definition, dict) else None
            href = str(definition.get("href")) if isinstance(definition, dict) else ""
            if isinstance(place, list) and not self.allows(href):
                yield place[0], place[1], None

    def _forbids(self, token: Token) -> bool:
        if token.type == "link_open":
            return not self._address(str(token.attrGet("href") or ""))
        if token.type == "image":
            return not self._address(str(token.attrGet("src") or ""))
        if token.type in ("code_inline", "softbreak", "hardbreak"):
            return False
        # Text that is written in pieces is read as one, and so is judged as one when it is
        # written again; here a hint of an address is enough.
        is_odd = token.type == "text_special" and token.content in ":/."
        return is_odd or self._text(token.content) != token.content

    def _address(self, address: str) -> str:
        return address if self.allows(address) else ""

    def _text(self, text: str) -> str:
        """A plain text in which forbidden addresses are cut down to their hosts."""
        written, place = [], 0
        for start, end, address in addresses(text):
            if self.allows(address):
                continue
            written += [text[place:start], _host(address)]
            place = end
        return "".join([*written, text[place:]]) if place else text


def addresses(text: str) -> Iterator[tuple[int, int, str]]:
    """The addresses in a text that a client might make links of: start, end and the address."""
    for found in _ADDRESS.finditer(text):
        end = found.end()
        for _ in range(_TRIMMED):
            if text[end - 1] not in _AFTER and not _is_unpaired(text[found.start() : end]):
                break
            end -= 1
        if end > found.start() and text[found.start() : end].strip("/:"):
            yield found.start(), end, text[found.start() : end]


def _is_unpaired(address: str) -> bool:
    pairs = {")": "(", "]": "[", "}": "{"}
    last = address[-1]
    return last in pairs and address.count(last) > address.count(pairs[last])


def _canonical(address: str) -> str:
    """One form for the ways in which the same address is written."""
    full = _full(address)
    try:
        parts = urlsplit(parser().normalizeLink(full))
    except ValueError:
        return full
    path = "" if parts.path == "/" and not parts.query else parts.path
    return parts._replace(
        scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=path
    ).geturl()


def _full(address: str) -> str:
    """An address with the scheme that a client would give it."""
    if _has_scheme(address):
        return address
    return f"https:{'' if address.startswith('//') else '//'}{address}"


def _has_scheme(address: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*:(?!\d+(?:/|$))", address, re.IGNORECASE) is not None


def _host(address: str) -> str:
    """What is shown of a forbidden address."""
    return host_of(_full(address)) or "…"
