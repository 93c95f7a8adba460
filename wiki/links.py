"""The links between notes: which lead to one, and what they become when it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wiki import note, paths
from wiki.paths import COMMON, Area, Place
from wiki.repository import Change, Repository
from wiki.search import Index

Renamed = Mapping[str, Mapping[str, str]]
"""For each note that has to be rewritten: the targets of its links, and what they become."""


class Links:
    """The links of a vault's notes.

    Args:
        index: knows which note links to which name.
    """

    def __init__(self, index: Index, repository: Repository) -> None:
        self._index = index
        self._repository = repository

    def leading_to(self, areas: Sequence[Area], path: str) -> list[tuple[str, str]]:
        """The notes of these areas with a link that leads to a note, and its target.

        A link leads where its own person would come: to the common area's notes and their own.
        """
        named: dict[Area, list[str]] = {}
        found = []
        for area, linking, target in self._index.linking(areas, path):
            if area not in named:
                named[area] = [named_by_its_person(one) for one in self._namesakes(area, path)]
            if note.resolve(target, named[area]) == named_by_its_person(path):
                found.append((linking, target))
        return found

    def renamed(self, areas: Sequence[Area], source: Place, target: Place) -> Renamed:
        """What the links to a note become when it moves."""
        found: dict[str, dict[str, str]] = {}
        for linking, wanted in self.leading_to(areas, source.path):
            new = named_by_its_person(target.path).removesuffix(".md")
            if not wanted.startswith((f"{paths.CURATED}/", f"{paths.MINE}/")):
                is_alone = not self._namesakes(paths.area_of_path(linking), target.path)
                is_bare = "/" not in wanted and is_alone
                new = note.name_of(target.path) if is_bare else new.partition("/")[2]
            if new != wanted:
                found.setdefault(linking, {})[wanted] = new
        return found

    def changes(self, head: str | None, area: Area, moved: str, renamed: Renamed) -> list[Change]:
        """The changes of one area that follow a note that has moved."""
        changes = []
        for path, targets in renamed.items():
            if path == moved or paths.area_of_path(path) != area:
                continue
            id_ = self._repository.path_id(head, path)
            if id_ is not None:
                text = self._repository.blob(id_).decode("utf-8", "replace")
                new = note.with_links(text, targets.get)
                if new != text:
                    changes.append(Change(path, new.encode("utf-8", "replace")))
        return changes

    def _namesakes(self, area: Area, path: str) -> list[str]:
        """The notes with the name of a note, of those that an area's person sees."""
        return self._index.named(list(dict.fromkeys((COMMON, area))), path)


def named_by_its_person(path: str) -> str:
    """A path of the repository as the person whose area it is names it."""
    area = paths.area_of_path(path)
    return path if area == COMMON else f"{paths.MINE}{path[len(area.folder) :]}"
