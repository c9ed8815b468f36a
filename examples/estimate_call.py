"""Estimates, by arithmetic alone, on which boards a call fits.

python examples/estimate_call.py
"""

from ssinghal import BufferType, Placement, board_names, estimate, load_board, make_case


def main() -> None:
    placement = Placement(memory=BufferType.L1, channels_last=True)
    case = make_case("add", ((1, 64, 640, 400), (1, 64, 640, 400)), placement=placement)
    for name in board_names():
        result = estimate(case, load_board(name))
        print(f"{name}: {result.verdict}, {result.reason}")
        for tensor in result.allocations:
            print(f"  {tensor.label}: {tensor.bytes_per_bank:,} B per bank; {tensor.padding_cause or 'no padding'}")


if __name__ == "__main__":
    main()
