"""What the compiler plans for the SIMD kernels is what they ask for and read."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ctypes_kernels import Conv2d, Shape
from simd_kernels import build

from refoldc.ir import QConv, Requant
from refoldc.packing import pack_conv, pack_dense, pack_depthwise, scratch_bytes


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels."""
    return build("fast", tmp_path_factory.mktemp("scratch"))


def layer(c_in: int, c_out: int, kernel: int, *, depthwise: bool) -> QConv:
    """A convolution, of which only the geometry matters."""
    shape = (c_out, kernel, kernel, 1 if depthwise else c_in)
    none = np.zeros(0)
    return QConv(
        name="conv",
        inputs=("x",),
        output="y",
        weights=np.zeros(shape, np.int8),
        weight_scale=none,
        bias=none,
        offset=np.zeros(c_out, np.int32),
        requant=Requant(np.zeros(c_out, np.int16), np.zeros(c_out, np.int64), 16),
        stride=(1, 2),
        dilation=(1, 3),
        pads=(1, 1, 1, 1),
        groups=c_in if depthwise else 1,
        depthwise=depthwise,
    )


@pytest.mark.parametrize("channels", [1, 8, 16, 17, 64, 300, 1280])
@pytest.mark.parametrize("depthwise", [False, True])
def test_scratch(lib: ctypes.CDLL, channels: int, depthwise: bool) -> None:
    """The compiler reserves the bytes that the firmware's functions return."""
    conv = layer(channels, channels, 3, depthwise=depthwise)
    params = Conv2d(Shape(20, 20, channels), Shape(20, 11, channels), 3, 3, 1, 2, 1, 3)
    kind = "dwconv2d" if depthwise else "conv2d"
    asked = getattr(lib, f"refold_{kind}_scratch_bytes_esp32s3")
    asked.restype = ctypes.c_size_t
    assert asked(ctypes.byref(params)) == scratch_bytes(conv, 11, channels)


def test_convolution_weights_by_sweep() -> None:
    """Windows are read column by column; a sweep has all channels."""
    weights = np.arange(1, 17, dtype=np.int8).reshape(1, 2, 1, 8)
    packed = pack_conv(weights)
    assert list(range(1, 17)) == packed[:16].tolist()
    assert 8 * 16 + 32 == packed.size
    assert not packed[16:].any()
    wide = np.ones((8, 1, 7, 16), np.int8)
    wide[:, :, 6] = 2
    packed = pack_conv(wide)
    assert {1} == set(packed[: 8 * 6 * 16].tolist())
    assert {2} == set(packed[8 * 6 * 16 : -32].tolist())


def test_columns_come_before_rows() -> None:
    """The two rows of a column lie together, padded to a vector."""
    weights = np.array([[[1], [2]], [[3], [4]]], np.int8)[None]
    packed = pack_conv(weights)[:32].reshape(2, 16)
    assert [[1, 3], [2, 4]] == packed[:, :2].tolist()
    assert not packed[:, 2:].any()


def test_depthwise_weights_by_lane() -> None:
    """Sixteen channels of a tap lie together; taps go down a column first."""
    weights = np.arange(4, dtype=np.int8).reshape(1, 2, 2, 1)
    packed = pack_depthwise(np.repeat(weights, 17, axis=0))
    assert [0, 2, 1, 3] == packed[:64:16].tolist()
    assert [0, 2, 1, 3] == packed[64:128:16].tolist()
    assert not packed[65:80].any()


def test_dense_rows_are_pairs_of_vectors() -> None:
    """Every output begins at 32 bytes."""
    packed = pack_dense(np.ones((2, 33), np.int8))
    assert 2 * 64 + 32 == packed.size
    assert 33 == packed[:64].sum() == packed[64:128].sum()
