"""Weights in the order in which the ESP32-S3's SIMD kernels load them.

The kernels are in firmware/src/kernels/esp32s3. A vector is 16 int8; what a
vector has to spare is zero, so that it does not matter what it is multiplied by.
The portable kernels keep the canonical order; :func:`packed_weights` gives the
second copy, which only builds for the ESP32-S3 contain.
"""

from __future__ import annotations

import numpy as np

from refoldc.ir import I8, QConv, QDense, QLayer

VECTOR = 16
RESIDENT = 6
"""Vectors of a window that one sweep of the convolution keeps in registers."""
CHANNELS = 8
"""Output channels that the convolution computes together."""
MOST_TAPS = 31
"""Products of int8 that a 20-bit lane holds, whatever they are."""
PREFETCH = 2
"""Vectors that the kernels load past the last."""


def padded(count: int, multiple: int) -> int:
    """``count`` rounded up.

    >>> padded(17, 16), padded(16, 16)
    (32, 16)
    """
    return -(-count // multiple) * multiple


def packed_weights(layer: QLayer) -> I8 | None:
    """The packed copy, or None where no SIMD kernel of the ESP32-S3 runs."""
    if isinstance(layer, QDense):
        return pack_dense(layer.weights)
    if not isinstance(layer, QConv):
        return None
    if layer.depthwise:
        taps = layer.weights.shape[1] * layer.weights.shape[2]
        return pack_depthwise(layer.weights) if taps <= MOST_TAPS else None
    return pack_conv(layer.weights) if layer.groups == 1 else None


def pack_conv(weights: I8) -> I8:
    """[C_OUT, KH, KW, C_IN] to [sweep, C_OUT, vectors of the sweep, 16], flat.

    A window is its columns, each the KH * C_IN inputs of one x padded to whole
    vectors; a sweep takes up to six vectors. C_OUT is padded to eight.
    """
    outputs, height, width, inputs = weights.shape
    column = padded(height * inputs, VECTOR)
    windows = np.zeros((padded(outputs, CHANNELS), width, column), np.int8)
    columns = weights.transpose(0, 2, 1, 3).reshape(outputs, width, -1)
    windows[:outputs, :, : height * inputs] = columns
    vectors = windows.reshape(len(windows), -1, VECTOR)
    starts = range(0, vectors.shape[1], RESIDENT)
    sweeps = [vectors[:, start : start + RESIDENT].reshape(-1) for start in starts]
    return _with_prefetch(np.concatenate(sweeps))


def pack_depthwise(weights: I8) -> I8:
    """[C, KH, KW, 1] to [C / 16, KW, KH, 16], flat."""
    channels, height, width, _ = weights.shape
    lanes = np.zeros((padded(channels, VECTOR), height, width), np.int8)
    lanes[:channels] = weights[..., 0]
    blocks = lanes.reshape(-1, VECTOR, height, width)
    return _with_prefetch(blocks.transpose(0, 3, 2, 1).reshape(-1))


def pack_dense(weights: I8) -> I8:
    """[OUT, IN] to [OUT, V, 16] with V even, flat."""
    outputs, inputs = weights.shape
    rows = np.zeros((outputs, padded(inputs, 2 * VECTOR)), np.int8)
    rows[:, :inputs] = weights
    return _with_prefetch(rows.reshape(-1))


def _with_prefetch(flat: I8) -> I8:
    return np.concatenate((flat, np.zeros(PREFETCH * VECTOR, np.int8)))


# --- scratch -----------------------------------------------------------------


def scratch_bytes(layer: QConv, output_width: int, input_channels: int) -> int:
    """What the SIMD kernel asks for; a test compares it with the firmware's.

    Args:
        layer: A convolution that has packed weights.
        output_width: Pixels of a row.
        input_channels: C_IN.
    """
    outputs, height, width, _ = layer.weights.shape
    slot = padded(outputs, VECTOR) if layer.depthwise else input_channels
    dilation = layer.dilation[1]
    seen = (output_width - 1) * layer.stride[1] + (width - 1) * dilation + 1
    columns = padded(seen, dilation)
    slab = columns * padded(height * slot, VECTOR) + padded(slot, VECTOR)
    return slab + channel_bytes(
        padded(outputs, VECTOR if layer.depthwise else CHANNELS)
    )


def channel_bytes(channels: int) -> int:
    """Tables, accumulators and statistics of padded output channels."""
    block = min(max(256 // channels, 1), 8)
    batch = min(max(2048 // channels // 8 * 8, 8), 128)
    result = padded(block * channels, VECTOR)
    return channels * (34 + 8 * block + 2 * batch) + result + 64
