"""Records what a part of a program allocates, as a cell of a notebook would, on the device that is open.

ssinghal exec -- python examples/profile_cell.py
"""

import ttnn

import ssinghal


def main() -> None:
    device = ttnn.open_device(device_id=0)
    a, b = (ttnn.empty([256, 2048], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG) for _ in range(2))
    with ssinghal.profiling(device) as p:
        c = ttnn.add(a, b)
        d = ttnn.relu(c)
        ttnn.deallocate(c)
        ttnn.add(d, b)
    print(f"peak: {p.peak['l1']:,} B of each L1 bank")
    for call in p.operations:
        print(f"{call.site}: {call.name} {call.peak['l1']:,} B, {call.after['l1']:,} B after it")
    print(p.report())
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
