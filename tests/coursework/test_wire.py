"""What crosses the boundary arrives as it was, and only plain data crosses."""

import base64
import json
import math
import pickle

import numpy as np
import pytest
import torch

from attncourse.coursework.wire import DTYPES, NotSendable, decode, encode, to_tensors


def sent(value):
    """A value on the other side, by way of the text that is really sent."""
    return decode(json.loads(json.dumps(encode(value))))


# --- What may cross ----------------------------------------------------------------------------------------

PLAIN = [
    None,
    True,
    False,
    0,
    -7,
    2**63,
    -(2**64) - 1,
    10**30,
    0.1,
    -0.0,
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    "",
    "weights",
    'κ "quoted"\n\x00 王',
    [],
    [[]],
    [1, [2.5, [None, "a", [True]]]],
    {},
    {"a": 1, "b": {"c": [1, {"d": "e"}]}},
    {"list": [1], "array": "x", "float": "nan"},  # the words of the messages themselves
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:40])
def test_a_plain_value_arrives_as_it_was(value):
    """1, 1.0 and True are equal to Python, and three different answers."""
    arrived = sent(value)
    assert repr(arrived) == repr(value), "the value or its type changed on the way"


def test_nan_arrives_as_nan():
    """JSON has no NaN: written bare, another reader refuses the whole message."""
    text = json.dumps(encode([math.nan, math.inf]), allow_nan=False)
    assert math.isnan(decode(json.loads(text))[0])


def test_a_tuple_arrives_as_a_list():
    """Two results are two results, whether in a tuple or in a list."""
    assert sent((1, (2, 3))) == [1, [2, 3]]


def test_names_in_a_dict_are_texts():
    """A dict of {1: ...} in JSON's own objects would lose what its keys were, and in what order."""
    assert list(sent({3: "a", "2": "b"}).items()) == [("3", "a"), ("2", "b")]


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_an_array_keeps_its_kind_shape_and_numbers(dtype, shape, kind):
    """A list of an array's numbers knows neither float32 from float64 nor the 4 of (2, 0, 4)."""
    array = np.asarray(np.random.default_rng(0).normal(size=shape) * 9).astype(dtype)
    arrived = sent(torch.from_numpy(array) if kind == "tensor" else array)
    assert type(arrived) is np.ndarray
    assert (arrived.dtype, arrived.shape) == (array.dtype, array.shape)
    assert arrived.tobytes() == array.tobytes(), "a number changed: are the bytes read in another order?"


def test_bfloat16_arrives_as_float32():
    """NumPy has no bfloat16, and refuses such a tensor."""
    tensor = torch.tensor([1.5, -3.0, math.inf]).bfloat16()
    arrived = sent(tensor)
    assert arrived.dtype == np.float32 and arrived.tolist() == [1.5, -3.0, math.inf]


def test_nan_and_infinity_in_an_array_arrive_bit_by_bit():
    array = np.array([np.nan, -np.inf, np.inf, -0.0, 1e-45], np.float32)
    assert sent(array).tobytes() == array.tobytes()


VIEWS = {
    "transposed": np.arange(12.0).reshape(3, 4).T,
    "every other": np.arange(12)[::2],
    "reversed": np.arange(5)[::-1],
    "a column": np.arange(12.0, dtype=np.float32).reshape(3, 4)[:, 1],
    "repeated": np.broadcast_to(np.arange(3.0), (2, 3)),
    "by column": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "read-only": np.frombuffer(b"abc", np.uint8),
    "the other byte order": np.arange(5, dtype=">i4"),
    "half, the other byte order": np.linspace(0, 1, 4).astype(">f2"),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_arrives_as_what_it_shows(view):
    """The bytes under a view lie in another order, or hold more than it shows."""
    arrived = sent(view)
    assert arrived.shape == view.shape and np.array_equal(arrived, view)


def test_a_permuted_tensor_arrives_as_what_it_shows():
    """Heads are moved by a permutation, which moves no byte."""
    tensor = torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1)[::2]
    assert sent(tensor).tolist() == tensor.tolist()


@pytest.mark.parametrize(
    "number", [np.float16(0.5), np.float32(0.1), np.int64(-3), np.uint8(255), np.bool_(True), np.int8(-1)]
)
def test_a_number_of_numpy_s_arrives_without_a_shape(number):
    """x.mean() of an array is one of these, and looks like a float to whoever prints it."""
    arrived = sent(number)
    assert arrived.shape == () and arrived.dtype == number.dtype and arrived == number


def test_float64_of_numpy_s_is_python_s_number():
    """np.float64 is a float to isinstance: it may cross as one, but not as a class of its own."""
    assert type(sent(np.float64(0.1))) is float
    assert type(encode(np.float64(0.1))) is float


def test_a_tensor_with_a_gradient_crosses():
    """Parameters and what is computed from them are answers like any other; .numpy() alone refuses them."""
    weight = torch.nn.Parameter(torch.ones(2))
    assert sent([weight, weight * 3])[1].tolist() == [3.0, 3.0]


def test_what_arrives_owns_its_memory():
    """A view of the received bytes is read-only: an in-place step would fail without its author's fault."""
    arrived = sent(np.zeros(3))
    arrived += 1
    assert arrived.flags.owndata and arrived.tolist() == [1, 1, 1]


def test_arguments_become_tensors_wherever_they_stand():
    """A mask inside a list or under a keyword is a tensor as well."""
    value = {"query": np.ones((2, 3), np.float32), "rest": [np.array(True), [np.zeros(0)], 5, "x", None]}
    tensors = to_tensors(sent(value))
    assert torch.equal(tensors["query"], torch.ones(2, 3)) and tensors["query"].dtype == torch.float32
    assert torch.equal(tensors["rest"][0], torch.tensor(True)) and tensors["rest"][1][0].shape == (0,)
    assert tensors["rest"][2:] == [5, "x", None]
    tensors["query"].add_(1)


# --- What may not ------------------------------------------------------------------------------------------

UNSENDABLE = {
    "an object": object(),
    "a class": int,
    "a function": len,
    "a generator": (x for x in [1]),
    "a set": {1},
    "bytes": b"abc",
    "a range": range(3),
    "a complex number": 1j,
    "an Ellipsis": ...,
    "an array of objects": np.array([object()]),
    "an array of texts": np.array(["a"]),
    "a complex array": np.ones(2, np.complex64),
    "a complex tensor": torch.ones(2, dtype=torch.complex64),
    "an array of records": np.zeros(2, [("a", "f4")]),
    "an array of dates": np.array(["2015-05-07"], "datetime64[D]"),
    "long doubles": np.ones(1, np.longdouble),
    "a module": torch.nn.Linear(1, 1),
    "deep inside": {"a": [1, (2, [object()])]},
    "a key": {(1, object()): 2},
}


@pytest.mark.parametrize("value", UNSENDABLE.values(), ids=UNSENDABLE.keys())
def test_what_is_not_plain_data_is_refused(value):
    """Whatever were sent for an object, the judge would have to believe its class."""
    with pytest.raises(NotSendable, match="array|tensor"):
        encode(value)


def array(dtype="float32", shape=(1,), content=bytes(4)):
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    return {"array": [dtype, shape if isinstance(shape, str) else list(shape), text]}


MALFORMED = {
    "bytes": b"abc",
    "a bare list": [1, 2],
    "an empty dict": {},
    "two kinds": {"float": "1.0", "list": []},
    "an unknown kind": {"pickle": base64.b64encode(pickle.dumps(1)).decode()},
    "a number as the kind": {1: 2},
    "a float that is none": {"float": "one"},
    "a float in a list": {"float": ["nan"]},
    "code for a float": {"float": "__import__('os')"},
    "a list of nothing": {"list": None},
    "a number for a list": {"list": 3},
    "a list in a list": {"list": [[1]]},
    "a dict without pairs": {"dict": [1]},
    "pairs of three": {"dict": [[1, 2, 3]]},
    "a dict of nothing": {"dict": None},
    "a malformed key": {"dict": [[{"x": 1}, 2]]},
    "a malformed value": {"dict": [["x", {"x": 1}]]},
    "an array of nothing": {"array": None},
    "an array of two": {"array": ["float32", [1]]},
    "an array of four": {"array": ["float32", [1], "AAAAAA==", 1]},
    "an array under names": {"array": {"dtype": "float32"}},
    "objects": array("object", content=bytes(8)),
    "objects, by letter": array("O", content=bytes(8)),
    "records": array("f4,f4", content=bytes(8)),
    "complex numbers": array("complex64", content=bytes(8)),
    "a type of another name": array("f4"),
    "a list for a type": array(["float32"]),
    "no type": array(None),
    "too few bytes": array(shape=(2,)),
    "too many bytes": array(shape=(1,), content=bytes(8)),
    "half a number": array(content=bytes(3)),
    "no bytes": array(content=b""),
    "bytes for an empty array": array(shape=(0,)),
    "no base64": array(content="%%%%"),
    "base64 with a stranger": array(content="AAAA\nAA=="),
    "a text beyond ASCII": array(content="ÄÄÄÄ"),
    "a size below zero": array(shape=(-1,)),
    "a size that is a float": array(shape=(1.0,)),
    "a size that is true": array(shape=(True,)),
    "a size that is a text": array(shape=("1",)),
    "a shape that is a text": array(shape="1"),
    "a shape of 2**70": array(shape=(2**70,)),
    "nothing times 2**70": array(shape=(0, 2**70), content=b""),
    "a shape of 200 axes": array(shape=(1,) * 200),
    "a number of bytes": {"array": ["float32", [1], 5]},
    "malformed deep inside": {"list": [{"dict": [["a", {"list": [{"array": []}]}]]}]},
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_message_that_nobody_encodes_is_refused(message):
    """A submission can write to the judge what it likes; any other error would end the grading of all."""
    with pytest.raises(ValueError, match="message|array"):
        decode(message)


def test_a_message_nested_too_deeply_is_refused():
    """RecursionError is no ValueError, and the judge waits for that one."""
    message = 0
    for _ in range(100_000):
        message = {"list": [message]}
    with pytest.raises(ValueError, match="nobody encodes"):
        decode(message)


class Touched(Exception):
    """Raised by whatever a message should not bring to life."""


class Trap:
    def __reduce__(self):
        return _spring, ()


def _spring():
    raise Touched


def test_nothing_that_arrives_is_run():
    """A pickle runs what its writer wrote: here one is sent wherever bytes or texts may stand."""
    loaded = pickle.dumps(Trap())
    with pytest.raises(Touched):
        pickle.loads(loaded)
    text = base64.b64encode(loaded).decode()
    arrived = decode(array("uint8", (len(loaded),), loaded))
    assert arrived.tobytes() == loaded
    assert decode(text) == text and decode({"list": [text]}) == [text]
    for kind in ("object", "O", "uint8", "V1"):
        with pytest.raises(ValueError, match="message"):
            decode(array(kind, (1,), loaded))


# --- Classes that lie --------------------------------------------------------------------------------------


def always(answer):
    return lambda *args, **kwargs: answer


EVIL = dict.fromkeys(["__eq__", "__ge__", "__le__", "__contains__"], always(True)) | {
    "__hash__": always(1),
    "__reduce__": Trap.__reduce__,
    "__reduce_ex__": Trap.__reduce__,
    "__repr__": always("the right answer"),
    "__str__": always("the right answer"),
    "tolist": always("the right answer"),
}


class EvilList(list):
    locals().update(EVIL)


class EvilDict(dict):
    locals().update(EVIL)


class EvilFloat(float):
    locals().update(EVIL)


class EvilInt(int):
    locals().update(EVIL)


class EvilText(str):
    locals().update(EVIL)


class EvilArray(np.ndarray):
    locals().update(EVIL)
    __array_priority__ = 1e9

    def __array_ufunc__(self, *args, **kwargs):
        return True

    def __array_function__(self, *args, **kwargs):
        return True


class EvilTensor(torch.Tensor):
    locals().update({name: method for name, method in EVIL.items() if name != "__hash__"})
    numpy = always(np.zeros(2, np.float32).view(EvilArray))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **(kwargs or {}))
        return result.as_subclass(cls) if type(result) is torch.Tensor else result


LIARS = {
    "list": (EvilList([1.0, EvilFloat(2)]), [1.0, 2.0]),
    "dict": (EvilDict({EvilText("a"): EvilInt(3)}), {"a": 3}),
    "float": (EvilFloat(0.5), 0.5),
    "int": (EvilInt(4), 4),
    "text": (EvilText("wrong"), "wrong"),
    "array": (np.array([1.0, 2.0]).view(EvilArray), np.array([1.0, 2.0])),
    "tensor": (torch.ones(2).as_subclass(EvilTensor), np.zeros(2, np.float32)),
}


@pytest.mark.parametrize(("liar", "plain"), LIARS.values(), ids=LIARS.keys())
@pytest.mark.parametrize(
    "way", [sent, lambda value: decode(encode(value))], ids=["as text", "in one process"]
)
def test_a_class_of_a_submission_s_own_stays_behind(liar, plain, way):
    """A list that equals everything is right in every comparison that it takes part in."""
    arrived = way(liar)
    assert type(arrived) is type(plain)
    if isinstance(plain, np.ndarray):
        assert arrived.dtype == plain.dtype and np.array_equal(arrived, plain)
    else:
        assert repr(arrived) == repr(plain)
    if isinstance(plain, list):
        assert type(arrived[1]) is float
    if isinstance(plain, dict):
        assert [(type(key), type(item)) for key, item in arrived.items()] == [(str, int)]


def test_an_object_that_poses_as_a_tensor_is_refused():
    """Whoever answers to every name answers to .detach().cpu().numpy() as well."""

    class Anything:
        shape, dtype = (2,), np.dtype("float32")

        def __getattr__(self, name):
            return self

        def __call__(self, *args, **kwargs):
            return self

    with pytest.raises(NotSendable):
        encode(Anything())


def test_no_object_gets_through_the_text_between():
    """What is no plain data may fool isinstance; JSON has no word for it."""

    class Posing:
        __class__ = bool

    with pytest.raises(TypeError):
        sent(Posing())
