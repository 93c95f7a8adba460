"""Markdown read and written again, as Google Chat shows it best. Pure.

Takes CommonMark with tables and strikethrough, as models write it, and gives the same text in
the few forms that Chat draws well: headings as bold lines, tables as aligned fences, images as
links, task items as ☑ and ☐, no rules, no HTML. What a model wrote never mentions anybody.
Knows nothing of which links may go out: that is asked of whoever calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from wcwidth import wcswidth

SCHEMES = ("http", "https", "mailto")

_PARSED_BLOCKS = ("html_block", "code")
"""Not parsed: HTML is dropped tag by tag, and a model's indented line is seldom code."""
_TASK = re.compile(r"\[([ xX])\](?=\s)")
_TAG = re.compile(r"</?([A-Za-z][\w-]*)")
_MENTION = re.compile(r"<((?:users|customEmojis)/[^<>\s]*)(>?)", re.IGNORECASE)
_CHAT_LINK = re.compile(r"<((?:https?|mailto):[^\s|<>]+)\|([^|<>\n]+)>", re.IGNORECASE)
_CITATION = re.compile(r"</?chat-citation[^<>]*>", re.IGNORECASE)
_LINE_MARK = re.compile(
    r"(?:#{1,6}(?=\s|$)|[-+*](?=\s|$)|>|=+\s*$|-+\s*$|```|~~~|(?:[-*_]\s*){3,}$)|(\d{1,9})([.)])(?=\s|$)"
)
_LONE = re.compile("[\ud800-\udfff]")
_SPECIAL = "\\`*_[]<~"
_BR = ("br",)

Rewrite = Callable[[str], str]
"""Gives a link's address back, or '' when only its label and host may be shown."""
Text = Callable[[str], str]
"""Gives a plain text back without the addresses that may not go out."""


@dataclass(frozen=True, slots=True)
class Style:
    """How blocks are written, and what happens to links.

    Args:
        chat: headings, tables, images, rules and tasks in Chat's forms; else as they were.
        address: of a link or an image.
        text: of whatever is no code.
    """

    chat: bool = True
    address: Rewrite = lambda address: address
    text: Text = lambda text: text


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """The parser of everything that a model writes."""
    made = MarkdownIt("commonmark", {"maxNesting": 40})
    made.enable(["table", "strikethrough"])
    made.disable(list(_PARSED_BLOCKS))
    # Joined, an escaped character could not be told from one that was meant as a mark.
    made.core.ruler.disable(["text_join"])
    made.validateLink = lambda url: True  # type: ignore[method-assign]  # judged by the writer
    return made


def to_chat(markdown: str) -> str:
    """The text for `markupSyntax: MARKUP_SYNTAX_MARKDOWN`; '' when nothing visible is left."""
    text = _LONE.sub("\ufffd", markdown).replace("\r\n", "\n").replace("\r", "\n")
    return render(parser().parse(text), text.split("\n"), Style())


def render(tokens: Sequence[Token], lines: Sequence[str], style: Style) -> str:
    """Tokens of the parser, whole blocks of them, as Markdown again.

    Args:
        tokens: what `parser().parse` gave.
        lines: the lines that were parsed; they say where blank ones stood.
    """
    return _inert(_Blocks(lines, style).write(_tree(tokens)))


def _inert(text: str) -> str:
    """Text that mentions nobody, draws no emoji of the company and cites nothing of ours."""
    return _MENTION.sub(
        lambda found: f"‹{found[1]}{'›' if found[2] else ''}", _CITATION.sub("", text)
    )


@dataclass(frozen=True, slots=True)
class _Node:
    """A block with the blocks or the inline tokens in it."""

    token: Token
    children: list[_Node]

    @property
    def kind(self) -> str:
        return self.token.type.removesuffix("_open")

    @property
    def start(self) -> int:
        return self.token.map[0] if self.token.map else 0


def _tree(tokens: Sequence[Token]) -> list[_Node]:
    roots: list[_Node] = []
    open_: list[list[_Node]] = [roots]
    for token in tokens:
        if token.nesting < 0:
            open_.pop()
            continue
        node = _Node(token, [])
        open_[-1].append(node)
        if token.nesting > 0:
            open_.append(node.children)
    return roots


class _Blocks:
    """Writes blocks; a blank line stands between two where one stood."""

    def __init__(self, lines: Sequence[str], style: Style) -> None:
        self._lines = lines
        self._style = style

    def write(self, nodes: Sequence[_Node]) -> str:
        written: list[str] = []
        before = ""
        for node in nodes:
            text = self._block(node)
            if not text:
                continue
            if written:
                joins = before == node.kind == "paragraph"
                written.append("\n\n" if joins or self._apart(node) else "\n")
            written.append(text)
            before = node.kind
        return "".join(written)

    def _apart(self, node: _Node) -> bool:
        line = node.start - 1
        return 0 <= line < len(self._lines) and not self._lines[line].strip(" \t>")

    def _block(self, node: _Node) -> str:
        kind, token = node.kind, node.token
        if kind == "paragraph":
            return self._paragraph(node)
        if kind == "heading":
            return self._heading(node)
        if kind in ("bullet_list", "ordered_list"):
            return self._list(node)
        if kind == "blockquote":
            return _prefixed(self.write(node.children), "> ", "> ")
        if kind in ("fence", "code_block"):
            return _fence(token.content.removesuffix("\n"), token.info.strip())
        if kind == "table":
            return self._table(node)
        if kind == "hr":
            return "" if self._style.chat else "---"
        return self.write(node.children)

    def _paragraph(self, node: _Node, task: bool = False) -> str:
        text = self._inline(node)
        if task and self._style.chat:
            text = _TASK.sub(lambda found: "☐" if found[1] == " " else "☑", text, count=1)
        return _guarded(text)

    def _heading(self, node: _Node) -> str:
        if not self._style.chat:
            return f"{'#' * int(node.token.tag[1:])} {self._inline(node)}".rstrip()
        text = " ".join(_Inline(self._style, strong=True).write(_inline_tokens(node)).split())
        return f"**{text}**" if text else ""

    def _inline(self, node: _Node) -> str:
        return _Inline(self._style).write(_inline_tokens(node)).strip()

    def _list(self, node: _Node) -> str:
        number = int(node.token.attrGet("start") or 1) if node.kind == "ordered_list" else None
        written: list[str] = []
        for item in node.children:
            mark = "- " if number is None else f"{number}. "
            number = None if number is None else number + 1
            text = self._item(item)
            if written:
                written.append("\n\n" if self._apart(item) else "\n")
            written.append(_prefixed(text, mark, " " * len(mark)) if text else mark.rstrip())
        return "".join(written)

    def _item(self, item: _Node) -> str:
        if not item.children or item.children[0].kind != "paragraph":
            return self.write(item.children)
        first = self._paragraph(item.children[0], task=True)
        rest = self.write(item.children[1:])
        if not first or not rest:
            return first or rest
        following = item.children[1]
        apart = following.kind == "paragraph" or self._apart(following)
        return f"{first}{chr(10) * (1 + apart)}{rest}"

    def _table(self, node: _Node) -> str:
        rows = [row.children for part in node.children for row in part.children]
        if not self._style.chat:
            return self._plain_table(rows)
        cells = [
            [_Inline(self._style, plain=True).write(_inline_tokens(c)) for c in r] for r in rows
        ]
        cells = [[" ".join(cell.split()) for cell in row] for row in cells]
        right = ["right" in str(cell.token.attrGet("style") or "") for cell in rows[0]]
        return _fence("\n".join(aligned(cells, right)), "")

    def _plain_table(self, rows: list[list[_Node]]) -> str:
        written = []
        for n, row in enumerate(rows):
            cells = [self._inline(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
            written.append("| " + " | ".join(cells) + " |")
            if n == 0:
                styles = [str(cell.token.attrGet("style") or "") for cell in row]
                marks = [
                    "--:" if "right" in s else ":-:" if "center" in s else "---" for s in styles
                ]
                written.append("|" + "|".join(marks) + "|")
        return "\n".join(written)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Rows of cells as lines in which the columns stand one under the other.

    Args:
        rows: cells of one line each.
        right: for each column, whether it is aligned to the right.

    Widths are counted in the cells of a terminal, so that East Asian characters take two.
    """
    columns = len(right)
    filled = [[*row, *[""] * (columns - len(row))][:columns] for row in rows]
    widths = [max(_width(row[n]) for row in filled) for n in range(columns)]
    lines = []
    for row in filled:
        cells = []
        for n, cell in enumerate(row):
            space = " " * (widths[n] - _width(cell))
            cells.append(space + cell if right[n] else cell + space)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    width = len(text) if text.isascii() else wcswidth(text)
    return width if width >= 0 else len(text)


def _prefixed(text: str, first: str, others: str) -> str:
    lines = text.split("\n")
    rest = [f"{others}{line}" if line else others.rstrip() for line in lines[1:]]
    return "\n".join([first + lines[0], *rest])


def _fence(content: str, info: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    marks = "`" * (longest + 1)
    return (
        f"{marks}{info.replace('`', '')}\n{content}\n{marks}"
        if content
        else f"{marks}{info}\n{marks}"
    )


def _guarded(text: str) -> str:
    """A paragraph none of whose lines begins a block, as none did before."""
    if "\n" not in text and not _LINE_MARK.match(text):
        return text
    return "\n".join(_guard(line.lstrip(" \t")) for line in text.split("\n"))


def _guard(line: str) -> str:
    found = _LINE_MARK.match(line)
    if found is None:
        return line
    return f"{found[1]}\\{line[found.start(2) :]}" if found[1] else f"\\{line}"


def _inline_tokens(node: _Node) -> list[Token]:
    return [token for child in node.children for token in child.token.children or ()]


class _Inline:
    """Writes what stands within one block.

    Args:
        strong: the whole is bold already, so that nothing in it is made so.
        plain: without any marks, for a fence.
    """

    def __init__(self, style: Style, strong: bool = False, plain: bool = False) -> None:
        self._style = style
        self._strong = strong
        self._plain = plain

    def write(self, tokens: Sequence[Token]) -> str:
        written: list[str] = []
        place = 0
        while place < len(tokens):
            token = tokens[place]
            if token.type == "link_open":
                end = _closing(tokens, place)
                self._add(written, self._link(token, tokens[place + 1 : end]))
                place = end + 1
            elif token.type in ("text", "text_special"):
                end = place
                while end < len(tokens) and tokens[end].type in ("text", "text_special"):
                    end += 1
                self._add(written, self._text(tokens[place:end]), text=True)
                place = end
            else:
                self._add(written, self._one(token, written))
                place += 1
        return "".join(written)

    @staticmethod
    def _add(written: list[str], piece: str, text: bool = False) -> None:
        """Adds a piece so that it makes no link together with what stands before it."""
        if text and piece.startswith(("(", "[")) and written and written[-1].endswith("]"):
            piece = "\\" + piece
        if piece:
            written.append(piece)

    def _one(self, token: Token, written: list[str]) -> str:
        kind = token.type
        if kind == "softbreak":
            return "\n"
        if kind == "hardbreak":
            return " " if self._plain else "  \n"
        if kind == "code_inline":
            return token.content if self._plain else _code(token.content)
        if kind == "image":
            return self._image(token)
        if kind == "html_inline":
            tag = _TAG.match(token.content)
            return "\n" if tag and tag[1].lower() in _BR else ""
        if self._plain:
            return ""
        if kind in ("strong_open", "strong_close"):
            return "" if self._strong else "**"
        if kind in ("em_open", "em_close"):
            return "*"
        return "~~" if kind in ("s_open", "s_close") else ""

    def _text(self, tokens: Sequence[Token]) -> str:
        """A run of text; judged as it is read, and written as it was where nothing is changed."""
        read = "".join(token.content for token in tokens)
        judged = self._style.text(read)
        if self._plain:
            return judged
        if judged != read:
            return escaped(judged)
        written = "".join(
            token.content if token.type == "text" else _special(token) for token in tokens
        )
        return _CHAT_LINK.sub(self._chat_link, written) if "|" in written else written

    def _chat_link(self, found: re.Match[str]) -> str:
        """Chat's own mark for a link, which is none in Markdown."""
        return self._linked(parser().normalizeLink(found[1]), escaped(found[2]), found[2])

    def _link(self, opened: Token, inside: Sequence[Token]) -> str:
        address = str(opened.attrGet("href") or "")
        if opened.markup == "autolink" and "|" in inside[0].content:
            # Chat's own link mark, which CommonMark takes for an address in angle brackets.
            return _CHAT_LINK.sub(self._chat_link, f"<{inside[0].content}>")
        label = _Inline(
            replace(self._style, text=lambda text: text), self._strong, self._plain
        ).write(_without_links(inside))
        return self._linked(address, " ".join(label.split("\n")), _read(inside))

    def _image(self, token: Token) -> str:
        address, name = str(token.attrGet("src") or ""), _read(token.children or ())
        if not self._style.chat and self._style.address(address):
            return f"![{escaped(name)}]({_destination(address)})"
        return self._linked(address, escaped(name or "image"), name or "image")

    def _linked(self, address: str, label: str, read: str) -> str:
        """A link with its label written and read; what may not go out shows label and host."""
        scheme = scheme_of(address)
        kept = self._style.address(address) if scheme in SCHEMES else ""
        if not kept:
            host = host_of(address) if scheme in SCHEMES else ""
            shown = self._style.text(read)
            label = escaped(shown) if shown != read and not self._plain else label
            if not host or host in (shown, label):
                return shown if self._plain else label
            return f"{shown if self._plain else label} ({host})"
        bare = address.removeprefix("mailto:")
        if read in (address, bare) or _is_same(read, address):
            return read
        return f"{read} ({kept})" if self._plain else f"[{label}]({_destination(kept)})"


def _is_same(read: str, address: str) -> bool:
    """Whether a label is the address itself, in another spelling."""
    if "." not in read or " " in read:
        return False
    return parser().normalizeLink(read) in (address, address + "/")


def _closing(tokens: Sequence[Token], place: int) -> int:
    depth = 0
    for n in range(place, len(tokens)):
        depth += (tokens[n].type == "link_open") - (tokens[n].type == "link_close")
        if depth == 0:
            return n
    return len(tokens)


def _without_links(tokens: Sequence[Token]) -> list[Token]:
    """What stands in a label; an image in it is its name, since no link holds another."""
    return [
        Token("text", "", 0, content=_read(token.children or ()))
        if token.type == "image"
        else token
        for token in tokens
        if token.type not in ("link_open", "link_close")
    ]


def _read(tokens: Sequence[Token]) -> str:
    """What a person reads of inline tokens."""
    return "".join(
        _read(token.children) if token.type == "image" and token.children
        else "" if token.type == "html_inline" else " " if "break" in token.type else token.content
        for token in tokens
    )  # fmt: skip


def _special(token: Token) -> str:
    """An escaped character as it was written; an entity as the character that it is."""
    if token.info == "escape":
        return token.markup
    return escaped(token.content, "\\`*_[]~") if token.content in _SPECIAL else token.content


def escaped(text: str, marks: str = _SPECIAL) -> str:
    """Plain text as Markdown that is read as just that."""
    return re.sub(f"[{re.escape(marks)}]", r"\\\g<0>", text)


def _code(content: str) -> str:
    runs = {len(run) for run in re.findall(r"`+", content)}
    marks = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    space = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{marks}{space}{content}{space}{marks}"


def _destination(address: str) -> str:
    return address.replace("(", "%28").replace(")", "%29").replace(" ", "%20").replace("<", "%3C")


def scheme_of(address: str) -> str:
    """The scheme of an address in lower case, or '' for what has none or is none."""
    try:
        return urlsplit(address).scheme.lower()
    except ValueError:
        return ""


def host_of(address: str) -> str:
    """The host of an address (a mail address's domain), or ''."""
    try:
        parts = urlsplit(address)
        if parts.scheme.lower() == "mailto":
            return parts.path.rpartition("@")[2]
        return parts.hostname or ""
    except ValueError:
        return ""
