"""The errors a user can cause. Each message says what was found, where, what was
expected and what to do; the command line prints it and exits with 2."""

from __future__ import annotations


class RefoldcError(Exception):
    """Base of every error the compiler raises on purpose."""


class BadModel(RefoldcError):
    """The file is no ONNX model that can be read, or contradicts itself."""


class UnsupportedOp(RefoldcError):
    """A node's operator, or a use of it, is outside what refold compiles."""


class UnknownOp(UnsupportedOp):
    """An operator that nothing compiles, whatever its use."""


class BadCalibration(RefoldcError):
    """The calibration images do not fit the model or say nothing about it."""


class BadOptions(RefoldcError):
    """A compile option has a value that means nothing, or not for this model."""


class DoesNotFit(RefoldcError):
    """The compiled model exceeds the board's memory."""


class BoundMissed(RefoldcError):
    """A ``--fail-under`` bound on compilation is not met."""
