"""What crosses the boundary between judge and submission: JSON, with arrays as raw bytes.

Never a pickle: whoever unpickles runs what the other side wrote. The judge decodes into NumPy arrays,
numbers, texts and lists of these, whatever classes the submission made up.
"""

import base64
import math
from typing import Any

import numpy as np

DTYPES = {"bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"}


class NotSendable(TypeError):
    """A value that is no tensor, array, number, text, None, or list, tuple or dict of these."""


def encode(value: Any) -> Any:
    """A value as JSON knows it.

    Raises:
        NotSendable: the value is none of those that may cross.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of a class of its own, the plain text
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # NaN and the infinities are no JSON: by name
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, list | tuple):
        return {"list": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    return {"array": _array(value)}


def _array(value: Any) -> list:
    if hasattr(value, "detach"):  # a tensor of torch, which this module need not import
        try:
            value = value.detach().cpu()
            value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
        except (TypeError, RuntimeError, NotImplementedError) as error:  # sparse, meta, float8
            raise NotSendable("a tensor that is no plain array") from error
    if not isinstance(value, np.ndarray | np.generic):
        raise NotSendable("no tensor, array, number, text, or list of these")
    array = np.asarray(value)  # without its subclass, and whatever that one overrides
    if array.dtype.name not in DTYPES:
        raise NotSendable(f"an array of {array.dtype.name}")
    content = array.astype(array.dtype.newbyteorder("="), copy=False).tobytes()
    return [array.dtype.name, list(array.shape), base64.b64encode(content).decode()]


def decode(message: Any) -> Any:
    """The value of a message: arrays are NumPy's, and own their memory.

    Raises:
        ValueError: the message is none that `encode` writes.
    """
    if message is None or isinstance(message, bool | str | int | float):
        return message
    try:
        [(kind, content)] = message.items()
        if kind == "float":
            return float(str(content))
        if kind == "list":
            return [decode(item) for item in content]
        if kind == "dict":
            return {str(decode(key)): decode(item) for key, item in content}
        if kind == "array":
            return _decode_array(*content)
    except (ArithmeticError, AttributeError, TypeError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"a message that nobody encodes: {type(error).__name__}") from None
    raise ValueError("a message of an unknown kind")


def _decode_array(dtype: str, shape: list, content: str) -> np.ndarray:
    if dtype not in DTYPES or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("an array of an unknown kind")
    return np.frombuffer(base64.b64decode(content, validate=True), dtype).reshape(shape).copy()


def to_tensors(value: Any) -> Any:
    """The same value with torch's tensors for arrays, as a submission's functions receive it."""
    if isinstance(value, np.ndarray):
        import torch

        return torch.from_numpy(value)
    if isinstance(value, list):
        return [to_tensors(item) for item in value]
    if isinstance(value, dict):
        return {key: to_tensors(item) for key, item in value.items()}
    return value
