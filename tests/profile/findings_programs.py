"""Small programs with a fault of memory, and programs that only look as if they had one. In L1 of an N150, ``tensor(n)`` takes
n tiles of 2,048 B in each of 64 banks."""

PROLOGUE = """
import torch
import ttnn
L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG
def tensor(tiles, memory=L1):
    return ttnn.empty([1, 1, 32 * tiles, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)
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
