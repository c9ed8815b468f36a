"""Which of the packages that models come from are installed here."""

from importlib.metadata import PackageNotFoundError, version

import pytest

PACKAGES = ("torch", "torchvision", "timm", "transformers", "diffusers", "ultralytics")


def installed(*packages):
    """Their versions by name, without local parts such as +cpu; those that are not installed are left out."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            continue
    return found


needs_torch = pytest.mark.skipif(not installed("torch"), reason="needs torch")
