"""`mfw token`: bearer tokens for the HTTP channel."""

from __future__ import annotations

import re

import click

from cli.common import as_json, expecting, person_option, print_json, stores, table, when

_SPAN = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


@click.group()
def command() -> None:
    """Make, list and revoke bearer tokens."""


@command.command()
@click.option("--user", required=True, metavar="NAME", help="The person is then http:NAME.")
@click.option("--name", default="", help="What the token is for.")
@click.option("--expires", metavar="SPAN", help="Such as 12h, 30d or 8w; without it, never.")
def new(user: str, name: str, expires: str | None) -> None:
    """Make a token; it is printed once, as the last line."""
    from bot.scope import is_person

    person = f"http:{user}"
    if not is_person(person):
        raise click.BadParameter("1 to 128 of A-Z a-z 0-9 . _ @ -", param_hint="--user")
    lives = None if expires is None else _milliseconds(expires)
    with stores(create=True) as opened:
        token, secret = opened.tokens.new(person, name, lives)
    click.echo(f"{token.id} for {person}; it is shown only now:", err=True)
    click.echo(secret)


def _milliseconds(span: str) -> int:
    match = _SPAN.fullmatch(span)
    if match is None:
        raise click.BadParameter("a span is a number and h, d or w: 30d", param_hint="--expires")
    return int(match[1]) * _HOURS[match[2]] * 3_600_000


@command.command("list")
@person_option()
@as_json
def list_(person: str | None, as_json: bool) -> None:
    """List tokens; the tokens themselves are kept nowhere."""
    with stores() as opened:
        tokens = opened.tokens.all(person)
    if as_json:
        print_json(
            [
                {
                    "id": one.id, "person": one.person, "name": one.name,
                    "created_at": one.created_at, "expires_at": one.expires_at,
                    "last_used_at": one.last_used_at, "revoked_at": one.revoked_at,
                }
                for one in tokens
            ]
        )  # fmt: skip
        return
    table(
        ["id", "person", "name", "made", "expires", "last used", "revoked"],
        [
            [one.id, one.person, one.name, when(one.created_at), when(one.expires_at),
             when(one.last_used_at), when(one.revoked_at)]
            for one in tokens
        ],
    )  # fmt: skip


@command.command()
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """End a token at once."""
    with stores() as opened, expecting(f"token {token_id}"):
        opened.tokens.revoke(token_id)
    click.echo(f"{token_id} is revoked", err=True)
