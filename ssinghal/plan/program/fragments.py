"""The parts of a written program that are the same in each: helpers, the forward in torch, the comparison."""

from __future__ import annotations

HELPERS = {
    "folded_weight": '''
def folded_weight(weight, gamma, variance, epsilon):
    """Returns a convolution's weight with the scale of the batch norm after it."""
    scale = 1 / torch.sqrt(variance + epsilon)
    scale = scale if gamma is None else gamma * scale
    return weight * scale.reshape(-1, *[1] * (weight.dim() - 1))
''',
    "folded_bias": '''
def folded_bias(bias, gamma, beta, mean, variance, epsilon):
    """Returns a convolution's bias with the shift of the batch norm after it."""
    scale = 1 / torch.sqrt(variance + epsilon)
    scale = scale if gamma is None else gamma * scale
    shift = (-mean if bias is None else bias - mean) * scale
    return shift if beta is None else shift + beta
''',
    "conv3d_matrix": '''
def conv3d_matrix(values, groups):
    """Returns a conv3d's weight as [kernel positions x channels, out channels], dense over its groups, or its bias as a row.

    Both kinds of channels are padded to complete tiles.
    """
    missing = -values.shape[0] % 32
    if values.dim() == 1:
        return torch.nn.functional.pad(values, (0, missing)).reshape(1, -1)
    out, channels, *kernel = values.shape
    dense = torch.zeros(out, channels * groups, *kernel, dtype=values.dtype)
    for group, part in enumerate(values.chunk(groups)):
        rows, columns = group * len(part), group * channels
        dense[rows : rows + len(part), columns : columns + channels] = part
    dense = torch.nn.functional.pad(dense, (0, 0) * 3 + (0, -dense.shape[1] % 32, 0, missing))
    return dense.permute(2, 3, 4, 1, 0).reshape(-1, dense.shape[0])
''',
    "layer": '''
def layer(state, name):
    """Returns weight and bias of a layer; None for a bias that it does not have."""
    return state[f"{name}.weight"], state.get(f"{name}.bias")
''',
    "folded": '''
def folded(state, conv, norm, epsilon):
    """Returns weight and bias of a convolution with the batch norm after it folded in."""
    weight, bias = layer(state, conv)
    gamma, beta = layer(state, norm)
    mean, variance = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
    return folded_weight(weight, gamma, variance, epsilon), folded_bias(bias, gamma, beta, mean, variance, epsilon)
''',
    "tiles": """
def tiles(values, dtype=ttnn.bfloat16):
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT)
""",
    "rows": """
def rows(values, dtype=ttnn.bfloat16):
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.ROW_MAJOR_LAYOUT)
""",
    "conv_weight": '''
def conv_weight(weight, has_bias, device, options, conv):
    """Returns a convolution's weight in the form that TTNN's call takes, on the host."""
    weight = ttnn.from_torch(weight if weight.dim() == 4 else weight.unsqueeze(2), dtype=options["input_dtype"])
    options = {**options, **conv, "device": device}
    return on_host(ttnn.prepare_conv_weights(weight_tensor=weight, weights_format="OIHW", has_bias=has_bias, **options))
''',
    "conv_bias": '''
def conv_bias(bias, device, options, conv):
    """Returns a convolution's bias in the form that TTNN's call takes, on the host."""
    bias = ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=options["input_dtype"])
    return on_host(ttnn.prepare_conv_bias(bias_tensor=bias, **options, **conv, device=device))
''',
    "convolution": '''
def convolution(name, tensors, device, options, conv):
    """Returns weight and bias of a convolution by name, as TTNN's call takes them, on the host."""
    weight, bias = tensors
    prepared = {f"{name}.weight": conv_weight(weight, bias is not None, device, options, conv)}
    return prepared if bias is None else {**prepared, f"{name}.bias": conv_bias(bias, device, options, conv)}
''',
    "returned_by_call": '''
def returned_by_call(function, tensors, device, image, options, conv):
    """Returns weight and bias as the convolution itself prepares them, on the host: it is called on an image of no values."""
    shape, dtype, layout, memory = image
    weight, bias = tensors
    if weight.dim() == 3:
        weight = weight.unsqueeze(2)  # over rows, which TTNN takes as maps of height 1
    given = ttnn.float32 if dtype == ttnn.float32 else ttnn.bfloat16  # in rows, which block floats cannot be
    _, prepared = function(
        input_tensor=ttnn.empty(shape, dtype, layout, device, memory),
        weight_tensor=ttnn.from_torch(weight, dtype=given),
        bias_tensor=None if bias is None else ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=given),
        device=device,
        return_weights_and_bias=True,
        **options,
        **conv,
    )
    return [None if tensor is None else on_host(tensor) for tensor in prepared]
''',
    "convolution_by_call": '''
def convolution_by_call(name, function, tensors, device, image, options, conv):
    """Returns weight and bias of a convolution by name, as its call prepares them, on the host."""
    weight, bias = returned_by_call(function, tensors, device, image, options, conv)
    return {f"{name}.weight": weight} if bias is None else {f"{name}.weight": weight, f"{name}.bias": bias}
''',
}
ON_HOST = '''
def on_host(tensor):
    """Returns a tensor in host memory, and frees its buffer on the device if it has one."""
    if not ttnn.is_tensor_storage_on_device(tensor):
        return tensor
    host = ttnn.from_device(tensor)
    ttnn.deallocate(tensor)
    return host
'''

PLACE = '''
def place_weights(prepared, device):
    """Puts the prepared weights on the device, in the order of the plan."""
    return {name: ttnn.to_device(host, device, memory_config=PLACED.get(name, DRAM)) for name, host in prepared.items()}
'''

TO_TORCH = '''
def to_torch(tensor, axes, order, shape):
    """Returns the values of a device tensor in torch's order: its axes on the device, their order in torch, torch's shape."""
    return ttnn.to_torch(tensor).reshape(axes).permute(order).reshape(shape)
'''

TORCH_RUN = '''
class TorchRun(TorchDispatchMode):
    """One forward of the torch model. ``outputs``: of each module that runs once; ``constants``: operands of the calls
    in CONSTANTS, which the model computes from its parameters or from numbers alone (masks, positions).
    """

    MADE_LIKE = {"full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randn_like", "zeros_like"}

    def __init__(self, model, call, tensors):
        super().__init__()
        self.outputs, self.constants = {}, {}
        self._names = {}
        for name, module in model.named_modules(remove_duplicate=False):
            self._names.setdefault(module, []).append(name)
        self._running, self._runs, self._counts = [""], Counter(), Counter()
        self._active = {}  # storages that depend on the inputs
        self._activate(tensors)
        hooks = torch.nn.modules.module
        handles = [hooks.register_module_forward_pre_hook(self._enter), hooks.register_module_forward_hook(self._leave)]
        with torch.inference_mode(), self:
            self.result = call(*tensors)
        for handle in handles:
            handle.remove()

    def _activate(self, tensors):
        for storage in (t.untyped_storage() for t in tensors):
            self._active[storage._cdata] = StorageWeakRef(storage)  # holds the address, not the values

    def _enter(self, module, args):
        names, below = self._names.get(module, []), f"{self._running[-1]}." if self._running[-1] else ""
        self._running.append(next((n for n in names if n.startswith(below)), names[0] if names else self._running[-1]))

    def _leave(self, module, args, result):
        name = self._running.pop()
        self._runs[name] += 1
        self.outputs[name] = result.clone() if self._runs[name] == 1 and isinstance(result, torch.Tensor) else None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        operands = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if any(t.untyped_storage()._cdata in self._active for t in operands):
            name = func._schema.name.partition("::")[2]
            self._keep(func, args, kwargs)
            changed = operands[:1] if func._schema.is_mutable else []
            made = [] if name in self.MADE_LIKE else [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            self._activate((*made, *changed))
        return result

    def _keep(self, func, args, kwargs):
        site = (self._running[-1], str(func), self._counts[self._running[-1], str(func)])
        self._counts[site[:2]] += 1
        for key, (*wanted, argument, position) in CONSTANTS.items():
            if tuple(wanted) == site:
                names = [a.name for a in func._schema.arguments]
                value = kwargs[argument] if argument in kwargs else args[names.index(argument)]
                self.constants[key] = (value if position is None else value[position]).clone()
'''

COMPARE = '''
def pcc(actual, expected):
    """Returns Pearson's correlation of the elements; not a number where one of both is constant, as of zero weights."""
    return torch.corrcoef(torch.stack([actual.flatten().double(), expected.flatten().double()]))[0, 1].item()


def keeps_values(device):
    """Returns whether the device keeps what is written to it. A virtual one does not, so nothing can be compared there."""
    written = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor = ttnn.to_device(ttnn.from_torch(written, dtype=ttnn.bfloat16), device, memory_config=DRAM)
    read = ttnn.to_torch(tensor).float()
    ttnn.deallocate(tensor)
    return torch.equal(read, written)


def no_check(name, tensor, axes, order, shape):
    """Compares nothing."""


def flat(value):
    """Yields the tensors in what a model returns."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    elif is_dataclass(value):
        for item in fields(value):
            yield from flat(getattr(value, item.name))
'''
