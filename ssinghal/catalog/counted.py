"""What the lines of captured and imported catalogs share: how often a call is made, and in which modules."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap

from pydantic import model_validator

from ssinghal.catalog.field_types import Amount, CatalogModel, Count, Modules
from ssinghal.core.case import ModuleCalls, Source


class MoreModules(CatalogModel):
    """Calls beyond those of the modules that a line names. ``modules``: how many more modules make them; 0 if it is not
    recorded which."""

    modules: Amount
    calls: Count


class CountedLine(CatalogModel):
    """A call made ``n`` times. ``at``: the modules that make it in the order of their first calls, each with its number of
    calls; at most 64 of them, the others are counted in ``more``. A module alone makes the first call; which modules make the
    others is not known then."""

    n: Count
    at: Modules | None = None
    more: MoreModules | None = None

    @model_validator(mode="after")
    def _modules_add_up(self) -> CountedLine:
        if isinstance(self.at, Mapping):
            calls = sum(self.at.values()) + (self.more.calls if self.more else 0)
            if calls != self.n:
                named = "at and more" if self.more else "at"
                raise ValueError(f"n is {self.n}, but the calls of the modules in {named} add up to {calls}")
        elif self.more:
            raise ValueError("more needs the modules in at with their calls")
        return self

    @property
    def modules(self) -> tuple[ModuleCalls, ...]:
        """The modules that are named, with their calls."""
        if self.at is None:
            return ()
        return tuple(starmap(ModuleCalls, self.at.items())) if isinstance(self.at, Mapping) else (ModuleCalls(self.at),)

    def made_in(self) -> tuple[tuple[ModuleCalls, ...], int, int]:
        """Returns ``modules``, ``other_modules`` and ``other_calls`` of the line's ``Source``."""
        modules = self.modules
        others = self.n - sum(m.calls for m in modules) if modules else 0
        return modules, self.more.modules if self.more else 0, others

    def source(self, catalog: str, model: str, input_size: str) -> Source:
        """Returns the line as the source of a case: ``model`` makes it at ``input_size``."""
        return Source(catalog, model, input_size, self.n, *self.made_in())
