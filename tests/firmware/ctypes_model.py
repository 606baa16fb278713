"""The structures of refold/model.h and forge.h; adapt.h's are in refold.twin."""

from __future__ import annotations

import ctypes as c

from ctypes_kernels import InputTable, Moments, Requant

SITE_MASK_BYTES = 32


class Call(c.Structure):
    """refold_call."""

    _fields_ = [
        ("params", c.c_void_p),
        ("inputs", c.c_void_p * 4),
        ("out", c.c_void_p),
        ("scratch", c.c_void_p),
        ("requant", c.POINTER(Requant)),
        ("moments", c.POINTER(Moments)),
    ]


class Layer(c.Structure):
    """refold_layer."""

    _fields_ = [
        ("name", c.c_char_p),
        ("run", c.CFUNCTYPE(None, c.POINTER(Call))),
        ("params", c.c_void_p),
        ("inputs", c.c_uint32 * 4),
        ("out", c.c_uint32),
        ("out_elements", c.c_uint32),
        ("site", c.c_int16),
        ("out_is_s32", c.c_uint8),
    ]


class InputTensor(c.Structure):
    """refold_input_tensor."""

    _fields_ = [("tensor", c.c_uint32), ("bytes", c.c_uint32)]


class OutputTensor(c.Structure):
    """refold_output_tensor."""

    _fields_ = [("layer", c.c_uint16), ("zero_point", c.c_int8), ("scale", c.c_float)]


class Site(c.Structure):
    """refold_site."""

    _fields_ = [
        ("layer", c.c_uint16),
        ("channels", c.c_uint16),
        ("pixels", c.c_uint32),
        ("stat_shift", c.c_uint8),
        ("requant", c.POINTER(Requant)),
        *((n, c.c_void_p) for n in ("mean", "variance", "inverse", "epsilon")),
        *((n, c.c_void_p) for n in ("gain", "offset")),
        *((n, c.c_void_p) for n in ("clean", "precision")),
        ("live", c.c_void_p),
    ]


class Model(c.Structure):
    """refold_model."""

    _fields_ = [
        ("abi", c.c_uint16),
        ("name", c.c_char_p),
        ("sha256", c.c_uint8 * 32),
        ("input_kind", c.c_uint8),
        ("input_bytes", c.c_uint32),
        ("input_table", c.POINTER(InputTable)),
        ("inputs", c.POINTER(InputTensor)),
        ("input_tensors", c.c_uint8),
        ("layer_count", c.c_uint16),
        ("layers", c.POINTER(Layer)),
        ("site_count", c.c_uint16),
        ("sites", c.POINTER(Site)),
        ("default_sites", c.c_uint8 * SITE_MASK_BYTES),
        ("default_shrinkage", c.c_float),
        ("outputs", c.POINTER(OutputTensor)),
        ("output_tensors", c.c_uint8),
        ("output_count", c.c_uint32),
        ("softmax", c.c_void_p),
        ("activation_bytes", c.c_uint32),
        ("scratch_bytes", c.c_uint32),
        ("site_channels", c.c_uint32),
        ("widest_site", c.c_uint32),
        ("adaptation", c.c_uint8),
        ("pace", c.c_void_p),
        ("gate_margin", c.c_float),
        ("gate_doubt", c.c_float),
    ]


class Forge(c.Structure):
    """refold_forge."""

    _fields_ = [
        ("site", c.POINTER(Site)),
        ("rule", c.c_uint8),
        *((name, c.c_void_p) for name in ("e1", "e2", "w1")),
        *((name, c.c_void_p) for name in ("m", "centre", "b", "work")),
    ]


class Score(c.Structure):
    """refold_forge_score."""

    _fields_ = [("sum", c.c_int64), ("count", c.c_uint32)]
