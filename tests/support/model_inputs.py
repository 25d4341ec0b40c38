"""Arguments of random models: trees with tensors, of another batch size or another length."""
import torch

BATCH = 4  # of random models: no other dimension of an argument or a result is 4


def batchDim(value):
    """Random models have the batch where a tensor has the size BATCH: no other dimension has it."""
    return next((dim for dim, size in enumerate(value.shape) if size == BATCH), None)


def mapped(values, change):
    """A tree of arguments with every tensor changed."""
    if isinstance(values, torch.Tensor):
        return change(values)
    if isinstance(values, dict):
        return {name: mapped(value, change) for name, value in values.items()}
    return type(values)(mapped(value, change) for value in values) if isinstance(values, (list, tuple)) else values


def fewer(value):
    """A tensor argument of a smaller batch."""
    dim = batchDim(value)
    return value.clone() if dim is None else value.narrow(dim, 0, value.size(dim) - 1).clone()


def shorter(value):
    return value[:, 1:].clone() if value.dim() == 3 else value.clone()


def call(method, inputs):
    with torch.no_grad(), torch.jit.optimized_execution(False):
        return method(**inputs) if isinstance(inputs, dict) else method(*inputs)


def tensors(values):
    if isinstance(values, torch.Tensor):
        return [values]
    return [one for value in (values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else []) for one in tensors(value)]
