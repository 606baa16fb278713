"""ONNX operators to float nodes: one small function an operator.

A module registers its functions with :func:`~refoldc.importers.registry.operator`;
adding an operator is adding a function. ``builder`` is what they work with.
"""

from refoldc.importers import (  # noqa: F401 - imported for their registrations
    convolution,
    dense,
    elementwise,
    joining,
    picking,
    pointwise,
    pooling,
    quantised,
    repeating,
    reshape,
    transposed,
)
from refoldc.importers.registry import OPERATORS, Importer, unsupported

__all__ = ["OPERATORS", "Importer", "unsupported"]
