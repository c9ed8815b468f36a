"""Fixtures that several modules of these tests share."""

import pytest

from ssinghal.capture.session import Captures


@pytest.fixture(scope="session")
def captures():
    """One process that captures: torch is imported once, each request is answered by a fork of it."""
    with Captures() as made:
        yield made
