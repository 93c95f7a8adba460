"""The errors of the memory package, drawn once.

    MemoryFault
    ├── StoreDown        a store cannot be read or written now; nothing of the call was kept
    │   └── Damaged      the archive's file is damaged; it is left exactly as it is
    ├── Refused          a store does not take our credentials
    ├── WrongSchema      the archive was written by another version and has to be migrated
    ├── Fenced           somebody else has taken over what this call wanted to write
    ├── NotFound         there is no such thing, or it is somebody else's
    ├── Mismatch         a known event id came with another content
    └── Conflict         the thing is not in the state that the call needs; `state` says in which

A driver's own errors never leave the driver's module.
"""

from __future__ import annotations


class MemoryFault(Exception):
    """The root of the tree; never raised itself."""


class StoreDown(MemoryFault):
    """The store is away, full, locked or read-only; trying later may help."""


class Damaged(StoreDown):
    """The file is damaged; only an operator can help."""


class Refused(MemoryFault):
    """The store refuses us; only an operator can help."""


class WrongSchema(MemoryFault):
    """The stored schema is not the one this version works with."""


class Fenced(MemoryFault):
    """The lease under which the call wrote has passed to another holder."""


class NotFound(MemoryFault):
    """Nothing under that id in that scope."""


class Mismatch(MemoryFault):
    """The event id is known, with another content."""


class Conflict(MemoryFault):
    """The object is in the state `state`, which does not allow the call."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state
