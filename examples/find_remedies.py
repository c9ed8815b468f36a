"""Searches for changes that make a call fit, and prints the code of each.

python examples/find_remedies.py
"""

from ssinghal import BufferType, Placement, Unsolved, find_remedies, make_case


def main() -> None:
    placement = Placement(memory=BufferType.L1, channels_last=True)
    case = make_case("add", ((1, 64, 640, 400), (1, 64, 640, 400)), placement=placement)
    result = find_remedies(case, "n150", "virtual", compare_values=False)
    if isinstance(result, Unsolved):
        print(f"nothing to search for: {result.verdict.status}")
        return
    for remedy in result.remedies.found:
        print(f"{remedy.impact}: {remedy.strategy}")
        for line in remedy.result.code:
            print(f"  {line}")


if __name__ == "__main__":
    main()
