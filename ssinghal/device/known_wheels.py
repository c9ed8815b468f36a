"""The SHA-256 of the wheels of TTNN releases that were known when this version was written."""

from __future__ import annotations

from collections.abc import Mapping

# By release: of the wheels for Python 3.12 and 3.10 on x86-64.
WHEELS: Mapping[str, tuple[str, str]] = {
    "0.66.0": (
        "372f24dd03c2955f6c6bed585384dbeab58ae5428dbe58bcf335bfd826540ba9",
        "2bc288ea38e64bcceb9b6e791d3a6e905de1dc264c54251b8624696ed213d7f9",
    ),
    "0.75.0": (
        "c04924211bc8aaa09915be4bf3ec871378c3609d83c2e2731aee834146a9e5a9",
        "8f8f59b3265464de065658b6baaed4fb26c419d805aee06110d1bc7b83c2a02a",
    ),
    "0.76.0": (
        "ef9ae928b233dbda6b732937e00d803552ad75dc0d8e892d5f2d75e87b2b77df",
        "34448fd69971f84a0fa42cbe0914bc08cde10e86dc2af847b5ec30d961795cd0",
    ),
    "0.77.0": (
        "b087f09dd08f64e8c48daecaf9427fa4b8030c0644c94fc1d8c11a96b97070de",
        "0ba2cc28bed635fa782b430efb9f2c1a77e06350a5e7c0b9d3125bf794e744da",
    ),
    "0.78.0": (
        "0617c1167b1206d256f6045c0b3e36c4bdc8c38a6e36c0f5ac903251b2e59b1c",
        "e715f303a3488af89d0cd72325f4e1866cc3858e6b0d1fa1a1e7fc7fb8edef53",
    ),
    "0.79.0": (
        "7178b02f76e8c5ed052ab541e88fd2c2f53f17268ec85fd32db82a987d17c73a",
        "8fea00b236f582bdf2d52a484ef8e2ead023c9f55adb9859eace1b1960c33c87",
    ),
    "0.80.0": (
        "a377fcb5cf614fc4b6a2213865dc366cb77f14e9f4464e97753993dce69064f0",
        "08711161f4a7161b2228e6bb1c49a6764dc5085e23c3f54524acc6e80d433d80",
    ),
    "0.81.1": (
        "cc6df66162c8b5f5a5eb7347fe687b6095bf57bd64f9ba1be3d9b7f42e01d64f",
        "ed49aa1ee3f39a87cbee21f35c9133544879ebf537b1788f6f033681ab504503",
    ),
}


def requirement(version: str) -> str:
    """Returns the line of a requirements file for pip, which takes no other archive of a known release. Of any other release
    pip takes what its index states the hash of, or what it has if the index states none.

    >>> requirement("99.0.0")
    'ttnn==99.0.0\\n'
    """
    return " ".join([f"ttnn=={version}", *(f"--hash=sha256:{sha256}" for sha256 in WHEELS.get(version, ()))]) + "\n"
