"""Small programs with a fault of memory, and programs that only look as if they had one. In L1 of an N150, ``tensor(n)`` takes
n tiles of 2,048 B in each of 64 banks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PROLOGUE = """
import torch
import ttnn
L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG
def tensor(tiles, memory=L1):
    return ttnn.empty([1, 1, 32 * tiles, 2048], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)
def relu(x):
    return ttnn.relu(x, memory_config=L1)
def upload(rows, columns, memory=L1):
    x = torch.zeros(1, 1, rows, columns)
    return ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)
"""

LATE = {
    # each block holds what is 4 times as wide until it returns
    "late in each layer": """
def block(x):
    wide = ttnn.concat([x, x, x, x], dim=3, memory_config=L1)
    part = ttnn.slice(wide, [0, 0, 0, 0], [1, 1, 256, 2048], memory_config=L1)
    y = relu(part)
    z = ttnn.concat([y, y, y, y], dim=3, memory_config=L1)
    return ttnn.slice(z, [0, 0, 0, 0], [1, 1, 256, 2048], memory_config=L1)
def main():
    x = tensor(8)
    for _ in range(3):
        x = block(x)
    ttnn.to_torch(x)
""",
    # the key is held while the product with the values is made
    "late key": """
def attention(q, k, v):
    scores = ttnn.add(q, k, memory_config=L1)
    large = ttnn.concat([scores, v, scores, v], dim=3, memory_config=L1)
    return ttnn.to_torch(large)
def main():
    x = tensor(10)
    q, k, v = relu(x), ttnn.exp(x, memory_config=L1), ttnn.neg(x, memory_config=L1)
    ttnn.deallocate(x)
    attention(q, k, v)
""",
    # never freed: at the level of the module
    "late at module level": """
image = tensor(40)
x = relu(image)
for _ in range(3):
    x = ttnn.add(x, x, memory_config=L1)
ttnn.to_torch(x)
def main(): pass
""",
    # read again and again at the start, and held until the end
    "late after a loop": """
def main():
    image = tensor(20)
    for _ in range(4):
        y = relu(image)
        ttnn.deallocate(y)
    x = tensor(10)
    for _ in range(3):
        wide = ttnn.concat([x, x, x], dim=3, memory_config=L1)
        ttnn.to_torch(wide)
        ttnn.deallocate(wide)
    ttnn.deallocate(x)
""",
    "late in DRAM": """
def main():
    table = upload(2048, 2048, DRAM)
    index = ttnn.to_memory_config(table, L1)
    rows = [ttnn.to_memory_config(index, DRAM) for _ in range(3)]
    whole = ttnn.concat(rows, dim=3, memory_config=DRAM)
    ttnn.to_torch(whole)
    ttnn.deallocate(table)
    for row in rows:
        ttnn.deallocate(row)
""",
    # two lines hold as much at two equal peaks
    "two hide each other": """
def first():
    a = tensor(10)
    x = relu(a)
    y = ttnn.concat([x, x], dim=3, memory_config=L1)
    ttnn.to_torch(y)
def second():
    b = tensor(10)
    z = relu(b)
    w = ttnn.concat([z, z], dim=3, memory_config=L1)
    ttnn.to_torch(w)
def main():
    first()
    second()
""",
}

LEAKS = {
    "leak of a history": """
history = [tensor(4)]
def main():
    for _ in range(6):
        history.append(relu(history[-1]))
""",
    "leak of inputs": """
kept = []
def main():
    weight = upload(2048, 2048, DRAM)
    for _ in range(5):
        kept.append(upload(256, 2048))
        y = ttnn.linear(kept[-1], weight, memory_config=L1)
        ttnn.deallocate(y)
""",
    "leak until it fails": """
kept = []
def main():
    x = tensor(100)
    for _ in range(9):
        kept.append(ttnn.exp(x, memory_config=L1))
""",
    "leak of a local list": """
def main():
    kept, x = [], tensor(4)
    for _ in range(5):
        kept.append(relu(x))
    ttnn.to_torch(x)
""",
}

CLEAN = {
    # five of 2 stay, with the 2 they are made of, far below the 20 + 80 before them: freed, they lower no peak
    "leak below another peak": """
KEPT = []
def main():
    x = tensor(20)
    wide = ttnn.concat([x, x, x, x], dim=3, memory_config=L1)
    ttnn.to_torch(wide)
    ttnn.deallocate(x)
    ttnn.deallocate(wide)
    y = tensor(2)
    for _ in range(5):
        KEPT.append(relu(y))
    ttnn.deallocate(y)
""",
    "weights of two runs": """
class Model:
    def __init__(self):
        self.weights = [upload(2048, 2048) for _ in range(4)]
        self.bias = [upload(1, 2048) for _ in range(4)]
    def __call__(self, x):
        for weight, bias in zip(self.weights, self.bias):
            y = ttnn.linear(x, weight, memory_config=L1)
            ttnn.deallocate(x)
            x = ttnn.add(y, bias, memory_config=L1)
            ttnn.deallocate(y)
        return x
def main():
    model = Model()
    for _ in range(2):
        y = model(upload(256, 2048))
        ttnn.to_torch(y)
        ttnn.deallocate(y)
""",
    "weights of one run": """
def main():
    weights = [tensor(16, L1) for _ in range(4)]
    x = upload(1024, 1024)
    scale = upload(1024, 1024)
    for weight in weights:
        y = ttnn.matmul(x, ttnn.reshape(weight, (1, 1, 1024, 1024)), memory_config=L1)
        ttnn.deallocate(x)
        x = y
        del y
    z = ttnn.multiply(x, scale, memory_config=L1)
    ttnn.deallocate(x)
    wide = ttnn.concat([z, z, z], dim=3, memory_config=L1)
    ttnn.deallocate(z)
    return ttnn.to_torch(wide)
""",
    # in one pass parameters are the first operand: of a product, of a concat
    "parameters that are the first operand": """
class Net:
    def __init__(self):
        self.scale, self.cache, self.weight = upload(256, 2048), upload(256, 2048), upload(256, 256)
    def __call__(self, x):
        h = ttnn.multiply(self.scale, relu(x), memory_config=L1)
        h = ttnn.matmul(self.weight, h, memory_config=L1)
        return ttnn.concat([self.cache, h], dim=2, memory_config=L1)
def main():
    net = Net()
    y = net(upload(256, 2048, DRAM))
    ttnn.to_torch(ttnn.concat([y, y, y], dim=3, memory_config=DRAM))
""",
    # placed on the device in another layout first
    "a placed parameter that is the first operand": """
def main():
    mask = ttnn.to_layout(upload(512, 2048), ttnn.ROW_MAJOR_LAYOUT, memory_config=L1)
    mask = ttnn.to_layout(mask, ttnn.TILE_LAYOUT, memory_config=L1)
    x = relu(upload(512, 2048, DRAM))
    x = ttnn.where(mask, x, 0.0, memory_config=L1)
    y = relu(x)
    ttnn.deallocate(x)
    ttnn.to_torch(ttnn.concat([y, y, y], dim=3, memory_config=L1))
""",
    "a residual over a block": """
def main():
    x = tensor(10)
    a = relu(x)
    b = ttnn.concat([a, a], dim=3, memory_config=L1)
    ttnn.deallocate(a)
    c = ttnn.slice(b, [0, 0, 0, 0], [1, 1, 320, 2048], memory_config=L1)
    ttnn.deallocate(b)
    y = ttnn.add(c, x, memory_config=L1)
    ttnn.deallocate(c)
    ttnn.deallocate(x)
    ttnn.to_torch(y)
""",
    "in place": """
def main():
    x, y = tensor(10), tensor(10)
    for _ in range(5):
        ttnn.add_(x, y)
        ttnn.relu(x, output_tensor=x)
    ttnn.deallocate(y)
    ttnn.to_torch(x)
""",
    "views": """
def main():
    x = tensor(10)
    y = ttnn.reshape(x, (1, 10, 32, 2048))
    a = tensor(2)
    wide = ttnn.concat([a, a, a, a], dim=3, memory_config=L1)
    ttnn.deallocate(a)
    ttnn.deallocate(wide)
    z = relu(y)
    ttnn.deallocate(y)
    ttnn.to_torch(z)
""",
    "a cache that every step uses": """
def main():
    cache = ttnn.zeros([1, 1, 256, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=L1)
    for step in range(4):
        new = upload(256, 2048)
        ttnn.add_(cache, new)
        ttnn.deallocate(new)
        y = relu(cache)
        z = ttnn.concat([y, y], dim=3, memory_config=L1)
        ttnn.deallocate(y)
        ttnn.to_torch(z)
        ttnn.deallocate(z)
""",
    "double-buffered inputs": """
def main():
    following = upload(256, 2048)
    for step in range(4):
        x, following = following, upload(256, 2048)
        y = relu(x)
        ttnn.deallocate(x)
        ttnn.to_torch(y)
        ttnn.deallocate(y)
    ttnn.deallocate(following)
""",
    "results that are read at the end": """
def main():
    x = tensor(10)
    results = [ttnn.add(x, number, memory_config=L1) for number in range(6)]
    ttnn.deallocate(x)
    return [ttnn.to_torch(result) for result in results]
""",
    "results that are kept": """
kept = []
def main():
    x = tensor(10)
    for number in range(3):
        kept.append(relu(x))
    ttnn.deallocate(x)
""",
    "convolutions that keep prepared weights": """
def main():
    x, kept = tensor(16), []
    x = ttnn.to_layout(ttnn.reshape(x, (1, 1, 32768, 32)), ttnn.ROW_MAJOR_LAYOUT, memory_config=DRAM)
    for _ in range(6):
        w = ttnn.from_torch(torch.zeros(32, 32, 1, 1), dtype=ttnn.bfloat16)
        y, prepared = ttnn.conv2d(input_tensor=x, weight_tensor=w, device=device, in_channels=32, out_channels=32, batch_size=1,
            input_height=256, input_width=128, kernel_size=(1, 1), stride=(1, 1), padding=(0, 0), return_weights_and_bias=True)
        kept.append(prepared)
        ttnn.deallocate(x)
        x = y
        del y, prepared
    ttnn.to_torch(x)
    return kept
""",
    "pages on more than half the banks": """
def main():
    x = ttnn.empty([1, 1, 40, 10_000], dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=L1)
    ttnn.to_torch(x)
""",
    "one row that is small": """
def main():
    bias, x = upload(1, 2048), tensor(100)
    y = ttnn.add(x, bias, memory_config=L1)
    ttnn.deallocate(bias)
    ttnn.deallocate(x)
    ttnn.to_torch(y)
""",
    "read by a method": """
def main():
    x = tensor(10)
    y = relu(x)
    ttnn.deallocate(x)
    a = tensor(10)
    wide = ttnn.concat([a, a], dim=3, memory_config=L1)
    ttnn.deallocate(a)
    ttnn.deallocate(wide)
    y.to_torch()
""",
    "holes that nothing needs": """
def main():
    kept = []
    for _ in range(5):
        gap = tensor(20)
        kept.append(tensor(2))
        ttnn.deallocate(gap)
    x = tensor(100)
    y = relu(x)
    ttnn.deallocate(x)
    z = ttnn.to_torch(y)
    for one in kept:
        ttnn.to_torch(one)
""",
}

PIECES = {
    # two teeth to move: the hole above each is 40 tiles, below all are 1,393,312 B - 4 * 120 * 2,048 B = 410,272 B
    "two to move": """
def main():
    tensors = [tensor(20 if number % 2 else 100) for number in range(8)]
    for large in tensors[::2]:
        ttnn.deallocate(large)
    for small in tensors[1::2]:
        ttnn.relu(small, output_tensor=small)
    tensor(350)
""",
    # a softmax of a row of 250 tiles needs more than what is below the lower tensor; the hole of the upper one would take that
    "program buffers below a hole": """
def main():
    upper, lower = tensor(300), tensor(100)
    ttnn.deallocate(upper)
    ttnn.relu(lower, output_tensor=lower)
    ttnn.softmax(ttnn.empty([1, 1, 32, 8000], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, DRAM), dim=-1, memory_config=DRAM)
""",
    "pieces of DRAM": """
def main():
    tensors = [tensor(6_000 if number % 2 else 30_000, DRAM) for number in range(4)]
    ttnn.deallocate(tensors[0])
    ttnn.deallocate(tensors[2])
    ttnn.relu(tensors[1], output_tensor=tensors[1])
    ttnn.relu(tensors[3], output_tensor=tensors[3])
    tensor(50_000, DRAM)
""",
}

# Rows of a core that a 3x3 convolution of 64 channels computes: its program buffers hold a block of 9 x 64 values for each.
CONVOLUTION = """
def convolve(rows):
    shards = ttnn.ShardStrategy.HEIGHT
    placed = ttnn.create_sharded_memory_config(
        (rows, 64), ttnn.CoreGrid(y=8, x=8), shards, use_height_and_width_as_shard_shape=True)
    x = ttnn.empty([1, 1, rows * 64, 64], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device, placed)
    weight = ttnn.from_torch(torch.zeros(64, 64, 3, 3), dtype=ttnn.bfloat16)
    config = ttnn.Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
    return ttnn.conv2d(input_tensor=x, weight_tensor=weight, device=device, in_channels=64, out_channels=64, batch_size=1,
        input_height=rows, input_width=64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), conv_config=config)
"""
SMALL = ", l1_small_size=8192"
NEAR = {
    "convolution near the limit": (
        SMALL,
        CONVOLUTION
        + """
def main():
    held = tensor(300)
    y = convolve(512)
    ttnn.deallocate(y)
    y = convolve(128)
    ttnn.to_torch(held)
""",
    ),
    "convolution beyond the limit": (
        SMALL,
        CONVOLUTION
        + """
def main():
    held = tensor(400)
    y = convolve(512)
    ttnn.to_torch(held)
""",
    ),
    "softmax beyond the limit": """
def main():
    held = tensor(300)
    ttnn.softmax(ttnn.empty([1, 1, 32, 8000], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, DRAM), dim=-1, memory_config=DRAM)
""",
}
ROOMY = {
    "convolution far from the limit": (SMALL, CONVOLUTION + "def main():\n    ttnn.to_torch(convolve(256))\n"),
    "tensors near the limit": "def main():\n    x = tensor(330)\n    ttnn.to_torch(relu(x))\n",
}

FEW = {
    "a row of floats": """
def main():
    x = ttnn.empty([1, 1, 1, 30_000], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT, device, L1)
    ttnn.to_torch(x)
""",
    "many tensors of 8 tiles": """
def main():
    kept = [ttnn.empty([1, 1, 32, 256], ttnn.float32, ttnn.TILE_LAYOUT, device, L1) for _ in range(30)]
    for one in kept:
        ttnn.to_torch(one)
""",
    "a long row in DRAM": """
def main():
    x = ttnn.empty([1, 1, 1, 8_000_000], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device, DRAM)
    ttnn.to_torch(x)
""",
}


def file_name(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_") + ".py"


def written(folder: Path, programs: Mapping[str, str | tuple[str, str]]) -> dict[str, Path]:
    """Writes programs, each of which opens a device, into ``folder``; options of the device come before its text."""
    paths = {}
    for name, program in programs.items():
        options, text = program if isinstance(program, tuple) else ("", program)
        opened = f"device = ttnn.open_device(device_id=0{options})\n"
        paths[name] = folder / file_name(name)
        paths[name].write_text(f"{PROLOGUE}{opened}{text}\nmain()\nttnn.close_device(device)\n")
    return paths
