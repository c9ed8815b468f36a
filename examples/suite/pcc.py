"""Comparison of a result with its golden values."""

import numpy as np
import torch


def comp_pcc(golden, calculated, pcc=0.99):
    golden, calculated = golden.to(torch.float32).flatten(), calculated.to(torch.float32).flatten()
    if torch.equal(golden, calculated):
        return True, 1.0
    found = float(np.corrcoef(golden.numpy(), calculated.numpy())[0, 1])
    return found >= pcc, found


def assert_with_pcc(golden, calculated, pcc=0.99):
    assert list(golden.shape) == list(calculated.shape), f"{list(golden.shape)} != {list(calculated.shape)}"
    passed, found = comp_pcc(golden, calculated, pcc)
    assert passed, f"PCC {found} below {pcc}"
