"""Sliding windows: pads and output sizes of convolutions and pools.

Computed here rather than taken from ONNX shape inference, which disagrees with
ONNX Runtime on ceil_mode.
"""

from __future__ import annotations

from dataclasses import dataclass

from refoldc.errors import BadModel
from refoldc.importers.values import OnnxNode
from refoldc.ir import Pads

Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A window over an image of ``size`` (H, W), as ONNX attributes give it."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    pads: Pads
    ceil: bool = False

    @property
    def reach(self) -> Pair:
        """Height and width that one window spans."""
        return (
            (self.kernel[0] - 1) * self.dilation[0] + 1,
            (self.kernel[1] - 1) * self.dilation[1] + 1,
        )

    def output(self, size: Pair) -> Pair:
        """(H, W) of the result; a dimension below 1 means it does not fit."""
        return self._steps(size, 0), self._steps(size, 1)

    def _steps(self, size: Pair, axis: int) -> int:
        before, after = self.pads[axis], self.pads[axis + 2]
        room = size[axis] + before + after - self.reach[axis]
        steps = room // self.stride[axis] + 1
        if self.ceil and room % self.stride[axis] and room >= 0:
            # ONNX Runtime drops a window that would start in the end padding.
            steps += steps * self.stride[axis] < size[axis] + before
        return steps

    def covered(self, size: Pair) -> Pads:
        """Pads raised at the end so that every window lies inside them."""
        top, left, bottom, right = self.pads
        height, width = self.output(size)
        return (
            top,
            left,
            max(bottom, self._end(height, 0) - size[0] - top),
            max(right, self._end(width, 1) - size[1] - left),
        )

    def _end(self, steps: int, axis: int) -> int:
        return (steps - 1) * self.stride[axis] + self.reach[axis]


def window(node: OnnxNode, size: Pair, kernel: Pair | None = None) -> Window:
    """Read a node's window over an image of ``size``.

    Args:
        node: Conv or pool.
        size: (H, W) of the image.
        kernel: Taken from the weights where the attribute is optional.

    Raises:
        UnsupportedOp: Not two-dimensional, or negative pads.
        BadModel: The attributes contradict each other.
    """
    kernel = pair(node, "kernel_shape", kernel)
    stride = pair(node, "strides", (1, 1))
    dilation = pair(node, "dilations", (1, 1))
    if min(*kernel, *stride, *dilation) < 1:
        raise BadModel(f"{node.where}: kernel, strides and dilations must be positive")
    plain = Window(kernel, stride, dilation, (0, 0, 0, 0))
    pads = _pads(node, plain, size)
    return Window(kernel, stride, dilation, pads, node.flag("ceil_mode"))


def pair(node: OnnxNode, name: str, default: Pair | None) -> Pair:
    """An attribute of one number an axis; one dimension has height 1.

    Raises:
        BadModel: It is missing.
        UnsupportedOp: It has more than two numbers.
    """
    values = node.attributes.get(name, default)
    if values is None:
        raise BadModel(f"{node.where} has no {name}: the model is incomplete")
    if len(values) == 1:
        return default[0] if default else 1, int(values[0])
    if len(values) != 2:
        raise node.refuse(
            f"{name} is {list(values)}",
            "refold compiles one- and two-dimensional windows only",
        )
    return int(values[0]), int(values[1])


def _pads(node: OnnxNode, plain: Window, size: Pair) -> Pads:
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if plain.dilation != (1, 1):
            raise node.refuse(
                f"combines auto_pad {mode} with dilations",
                "ONNX Runtime does not execute it: write the pads out",
            )
        heights, widths = (_same(plain, size, axis, mode) for axis in (0, 1))
        return heights[0], widths[0], heights[1], widths[1]
    if mode == "VALID":
        return 0, 0, 0, 0
    if mode != "NOTSET":
        raise BadModel(f"{node.where}: auto_pad '{mode}' is not an ONNX value")
    pads = [int(p) for p in node.attributes.get("pads", (0, 0, 0, 0))]
    if len(pads) == 2:  # one dimension: height 1
        pads = [0, pads[0], 0, pads[1]]
    if len(pads) != 4 or min(pads) < 0:
        raise node.refuse(
            f"pads are {pads}", "expected four numbers, none negative: crop beforehand"
        )
    return pads[0], pads[1], pads[2], pads[3]


def _same(plain: Window, size: Pair, axis: int, mode: str) -> Pair:
    stride, reach = plain.stride[axis], plain.reach[axis]
    steps = -(-size[axis] // stride)
    total = max((steps - 1) * stride + reach - size[axis], 0)
    less, more = total // 2, total - total // 2
    return (less, more) if mode == "SAME_UPPER" else (more, less)
