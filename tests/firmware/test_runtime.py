"""The runtime on a small model: layers, adaptation over a stream, saved state."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
import pytest
from ctypes_kernels import Guarded, guard
from ctypes_model import Model
from runtime_harness import CLOCK, TRACE, Device, Twin, stream, values

from refoldc.adapt import AdaptConfig

from refold.facts import Status
from refold.twin import NativeConfig

CASES: dict[str, tuple[dict[str, Any], AdaptConfig]] = {
    "off": ({"method": 0}, AdaptConfig(method="off")),
    "gated": ({}, AdaptConfig()),
    "lagged": ({"gate": 0}, AdaptConfig(gate=False)),
    "exact": ({"stats": 1}, AdaptConfig(stats="exact")),
    "published": (
        {"stats": 1, "rule": 1, "gate": 0, "shrinkage": 1.0, "warm": 0},
        AdaptConfig.published(),
    ),
    "every 4": (
        {"interval": 4, "warm": 1, "shrinkage": 0.75, "momentum": 0.125},
        AdaptConfig(interval=4, warm=1, shrinkage=0.75, momentum=0.125),
    ),
    "last site": (
        {"sites": (c.c_uint8 * 32)(4)},
        AdaptConfig(sites=(2,)),
    ),
    "no site": ({"sites": (c.c_uint8 * 32)()}, AdaptConfig(sites=())),
}


@pytest.mark.parametrize("case", CASES)
def test_stream(runtime: c.CDLL, case: str) -> None:
    """Logits, score, every layer and the saved state equal the reference's."""
    changes, config = CASES[case]
    device = Device(runtime)
    twin = Twin(device, config)
    assert Status.OK == device.set(**changes)
    traced: list[bytes] = []
    hook = TRACE(
        lambda _user, _layer, data, size: traced.append(c.string_at(data, size))
    )
    runtime.refold_set_trace(device.ctx, hook, None)
    for image in stream(45):
        traced.clear()
        np.testing.assert_array_equal(twin.infer(image), device.infer(image))
        assert twin.outputs == traced
        adapts = config.method != "off"
        score = twin.forge.finish() if adapts else np.float32(0)
        assert score == np.float32(device.report.shift_score)
        assert adapts == device.report.adapted
    assert twin.forge.save() == device.save()


def test_adaptation_changes_the_answer(runtime: c.CDLL) -> None:
    """The comparison above is not one of two static networks."""
    off, forge = Device(runtime), Device(runtime)
    assert Status.OK == forge.set()
    answers = [(off.infer(x).tolist(), forge.infer(x).tolist()) for x in stream(20)]
    assert answers[0][0] == answers[0][1]
    assert any(a != b for a, b in answers[1:])


def test_starts_switched_off(runtime: c.CDLL) -> None:
    """A fresh context has the defaults, with adaptation off."""
    device, config = Device(runtime), NativeConfig()
    runtime.refold_adapt_get(device.ctx, c.byref(config))
    assert (0, 0, 0, 1, 1, 8) == (
        *(config.method, config.stats, config.rule),
        *(config.gate, config.interval, config.warm),
    )
    assert (0.5, np.float32(1 / 640)) == (config.shrinkage, np.float32(config.momentum))
    assert bytes(device.model.default_sites) == bytes(config.sites)


def test_reset_forgets(runtime: c.CDLL) -> None:
    """After a reset the stream's answers repeat."""
    device = Device(runtime)
    assert Status.OK == device.set()
    first = [device.infer(x).tolist() for x in stream(5)]
    runtime.refold_adapt_reset(device.ctx)
    assert first == [device.infer(x).tolist() for x in stream(5)]


def test_settings_change_on_the_way(runtime: c.CDLL) -> None:
    """Statistics survive new settings; the tables follow, a new rule resets."""
    device = Device(runtime)
    twin = Twin(device, AdaptConfig())
    assert Status.OK == device.set()
    images = list(stream(30))
    plans: list[tuple[dict[str, Any], AdaptConfig]] = [
        ({}, AdaptConfig(sites=(0, 1))),
        ({"shrinkage": 1.0}, AdaptConfig(shrinkage=1.0, sites=(0, 1))),
        ({"sites": (c.c_uint8 * 32)(7)}, AdaptConfig(sites=(0, 1, 2))),
        ({"rule": 1}, AdaptConfig(rule="published", sites=(0, 1))),
    ]
    for number, (changes, config) in enumerate(plans):
        assert Status.OK == device.set(**changes)
        twin.forge.configure(config, keep_state=True)
        for image in images[7 * number :][:7]:
            np.testing.assert_array_equal(twin.infer(image), device.infer(image))
            twin.forge.finish()
    assert twin.forge.save() == device.save()


@pytest.mark.parametrize(
    "changes",
    [
        {"method": 4},
        {"stats": 2},
        {"rule": 2},
        {"gate": 2},
        {"interval": 0},
        {"interval": 65},
        {"shrinkage": -0.01},
        {"shrinkage": 1.01},
        {"shrinkage": float("nan")},
        {"grade": -0.1},
        {"grade": 1e-9},
        {"grade": float("nan")},
        {"momentum": 0.0},
        {"momentum": 1.5},
        {"momentum": float("nan")},
        {"sites": (c.c_uint8 * 32)(8)},
        {"sites": (c.c_uint8 * 32)(*[0] * 31, 128)},
    ],
    ids=lambda changes: " ".join(
        f"{k}={list(v) if k == 'sites' else v}" for k, v in changes.items()
    ),
)
def test_bad_settings_change_nothing(runtime: c.CDLL, changes: dict[str, Any]) -> None:
    """A field out of range is refused; configuration and state stay."""
    device = Device(runtime)
    assert Status.OK == device.set(interval=2)
    for image in stream(3):
        device.infer(image)
    before, config = device.save(), NativeConfig()
    assert Status.ERROR_CONFIG == device.set(**changes)
    runtime.refold_adapt_get(device.ctx, c.byref(config))
    assert (2, before) == (config.interval, device.save())


def test_init_checks_arena_and_abi(runtime: c.CDLL) -> None:
    """A short or misaligned arena and another ABI are refused."""
    device = Device(runtime)
    size = len(device.arena.array)
    assert Status.ERROR_SIZE == device.init(size - 1)
    assert Status.ERROR_SIZE == device.init(size, skew=8)
    other = Model.from_buffer_copy(device.model)
    other.abi += 1
    device.model = other
    assert Status.ERROR_ABI == device.init(size)


def test_clock_times_image_and_adaptation(runtime: c.CDLL) -> None:
    """With a clock that ticks at every look, each part shows its looks."""
    device = Device(runtime)
    ticks = iter(range(2**32 - 3, 2**33))
    clock = CLOCK(lambda: next(ticks) % 2**32)
    runtime.refold_set_clock(device.ctx, clock)
    assert Status.OK == device.set()
    device.infer(next(stream(1)))
    # Two adapting sites are timed from a look before to a look after.
    assert (2, 5) == (device.report.adapt_us, device.report.infer_us)
    runtime.refold_set_clock(device.ctx, None)
    device.infer(next(stream(1)))
    assert (0, 0) == (device.report.adapt_us, device.report.infer_us)


def test_model_without_adaptation(runtime: c.CDLL) -> None:
    """No state in the arena, no save or load, and FORGE is refused."""
    device = Device(runtime, "tiny_int8_model")
    with_forge = runtime.refold_arena_bytes(
        c.byref(Model.in_dll(runtime, "tiny_model"))
    )
    assert len(device.arena.array) <= with_forge - 18 * 14
    assert 0 == runtime.refold_adapt_state_bytes(c.byref(device.model))
    assert Status.ERROR_UNSUPPORTED == device.set()
    assert Status.OK == device.set(method=0)
    assert Status.ERROR_UNSUPPORTED == device.load(b"")
    assert Status.ERROR_UNSUPPORTED == runtime.refold_adapt_save(
        device.ctx, c.create_string_buffer(4), c.c_size_t(4)
    )
    runtime.refold_adapt_reset(device.ctx)


def test_int8_output_is_widened(runtime: c.CDLL) -> None:
    """An int8 output is reported as q - zero_point; a tensor input is copied."""
    device = Device(runtime, "tiny_int8_model")
    full = Device(runtime)
    traced: dict[int, bytes] = {}

    def keep(_user: int, layer: int, data: int, size: int) -> None:
        traced[layer] = c.string_at(data, size)

    hook = TRACE(keep)
    runtime.refold_set_trace(full.ctx, hook, None)
    image = next(stream(1))
    full.infer(image)
    table = values(full.model.input_table.contents.table, 512, "i1").reshape(2, 256)
    tensor = table[np.arange(2), image.reshape(-1, 2)]
    hidden = np.frombuffer(traced[7], np.int8).astype(np.int32)
    np.testing.assert_array_equal(hidden + 3, device.infer(tensor))


def test_softmax(runtime: c.CDLL) -> None:
    """Integer probabilities follow the table, also across the int32 range."""
    exp = np.round(32768 * np.exp(-np.arange(256) / 23)).astype(np.uint16)
    shift = 3
    table = guard(np.frombuffer(exp.tobytes() + bytes([shift, 0]), np.uint8))
    cases = (
        [5],
        [100, 100],
        [2064, 1964, 0],
        [2**31 - 1, -(2**31), 0],
        [-8, -7, -9, -1],
    )
    for case in cases:
        logits = np.array(case, np.int64)
        e = exp[np.minimum((logits.max() - logits) >> shift, 255)].astype(np.int64)
        out = Guarded((len(case),), np.uint16)
        runtime.refold_softmax(
            table.pointer,
            guard(logits.astype(np.int32)).pointer,
            len(case),
            out.pointer,
        )
        np.testing.assert_array_equal((e << 15) // e.sum(), out.array)
        assert out.is_intact()
