"""Offers the ways of calling what else maps go through: pools, changes of resolution, concats, slices, pads."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.plan.placing.offers import Offer

OFFERS: Mapping[str, Offer] = {}
