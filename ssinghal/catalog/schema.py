"""The three kinds of catalog, as pydantic models.

crossed   a shape sweep: lists of shapes tried on every operator, each shape with its origin
captured  the calls that one model makes at one input size
imported  the calls of an operator list, each with the model and count that the list names
"""

from __future__ import annotations

from ssinghal.catalog.captured import CapturedCatalog
from ssinghal.catalog.crossed import CrossedCatalog
from ssinghal.catalog.imported import ImportedCatalog

Catalog = CrossedCatalog | CapturedCatalog | ImportedCatalog
