"""Read an ONNX file, and say what it is where it is not one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from refoldc.errors import BadModel
from refoldc.input_ports import fix_shapes

OPSETS = range(7, 24)
"""Of the default domain, '' or 'ai.onnx'."""
MAX_IR_VERSION = 13
COMMON_IR_VERSION = 10
"""What a loaded model is brought to."""

_HOW_TO_EXPORT = "give the .onnx file that torch.onnx.export or tf2onnx writes"

_LOOKALIKES: tuple[tuple[bytes, str], ...] = (
    (
        b"version https://git-lfs",
        "a git-lfs pointer, not the model itself: run 'git lfs pull' in its clone",
    ),
    (b"<!doctype", "an HTML page: the download link led to a web page, not a file"),
    (b"<html", "an HTML page: the download link led to a web page, not a file"),
    (b"pk\x03\x04", f"a zip archive, as PyTorch and Keras save: {_HOW_TO_EXPORT}"),
    (b"\x89hdf", f"an HDF5 file, as Keras saves: {_HOW_TO_EXPORT}"),
    (b"\x80", f"a Python pickle: {_HOW_TO_EXPORT}"),
)


def load_onnx(path: Path, shapes: Sequence[str] = ()) -> onnx.ModelProto:
    """Read a model with its external data and check its versions.

    Args:
        path: The .onnx file; data files are looked for beside it.
        shapes: Of inputs, such as ``input:1x3x224x224``, that the model leaves open.

    Returns:
        The model, its default operator domain spelled '', local functions
        inlined.

    Raises:
        BadOptions: ``shapes`` do not fit the model.
        BadModel: The file is missing, empty, truncated, something else than
            ONNX, or of a version that refold does not read.
    """
    model = _parse(_read(path), path)
    _load_external_data(model, path)
    if model.functions:
        model = _inlined(model, path)
    _normalise_domains(model)
    _check_versions(model, path)
    _forget_ir_version(model)
    fix_shapes(model, shapes)
    return model


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise BadModel(f"{path} is a directory; give the .onnx file in it")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadModel(f"{path} does not exist; check the path") from None
    except OSError as error:
        raise BadModel(f"{path} cannot be read: {error.strerror}") from None
    if not data:
        raise BadModel(
            f"{path} is empty; an interrupted export or download leaves such a "
            "file: make it again"
        )
    start = data[:256].lstrip().lower()
    for magic, what in _LOOKALIKES:
        if start.startswith(magic):
            raise BadModel(f"{path} is {what}")
    return data


def _parse(data: bytes, path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        if data[:1] == b"\x08":  # field 1, ir_version: how every model starts
            raise BadModel(
                f"{path} is a truncated or damaged ONNX file ({len(data)} bytes): "
                "download or export it again"
            ) from None
        raise BadModel(f"{path} is not an ONNX file: {_HOW_TO_EXPORT}") from None
    if not model.ir_version:
        raise BadModel(f"{path} is not an ONNX file: {_HOW_TO_EXPORT}")
    if not model.graph.output:
        raise BadModel(
            f"{path} is a truncated ONNX file or holds no network: the graph has "
            "no output; download or export it again"
        )
    if not all(isinstance(text, str) for text in _texts(model)):
        raise BadModel(
            f"{path} is a damaged ONNX file: a name in it is no UTF-8 text; download "
            "or export it again"
        )
    return model


def _texts(message: Message) -> Iterator[object]:
    """Every text in a model; protobuf gives bytes where it cannot be decoded."""
    for field, value in message.ListFields():
        values = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == field.TYPE_STRING:
            yield from values
        elif field.type == field.TYPE_MESSAGE:
            for part in values:
                yield from _texts(part)


def _load_external_data(model: onnx.ModelProto, path: Path) -> None:
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise BadModel(
            f"{path} keeps weights in another file, which cannot be read: {error}; "
            "keep that file beside the model, under the name it was exported with"
        ) from None


def _inlined(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """Without local functions, those of another opset converted to the model's."""
    try:
        return onnx.inliner.inline_local_functions(model, convert_version=True)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise BadModel(
            f"{path} has local functions that cannot be inlined: {reason}; export it "
            "again without them"
        ) from None


def _normalise_domains(model: onnx.ModelProto) -> None:
    """Spell the default domain '' everywhere, declared once."""
    default = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    others = [o for o in model.opset_import if o.domain not in ("", "ai.onnx")]
    kept = [onnx.helper.make_opsetid(o.domain, o.version) for o in others]
    del model.opset_import[:]
    if default:
        model.opset_import.append(onnx.helper.make_opsetid("", max(default)))
    model.opset_import.extend(kept)
    for node in model.graph.node:
        if node.domain == "ai.onnx":
            node.domain = ""


def opset_version(model: onnx.ModelProto) -> int:
    """The default domain's version; 0 where a model declares none."""
    return next((o.version for o in model.opset_import if o.domain == ""), 0)


def _check_versions(model: onnx.ModelProto, path: Path) -> None:
    opset = opset_version(model)
    if opset not in OPSETS:
        raise BadModel(
            f"{path} uses opset {opset or 'none'}, refold reads {OPSETS.start} to "
            f"{OPSETS.stop - 1}: export it again with opset_version=17, or convert "
            "it with onnx.version_converter"
        )
    if model.ir_version > MAX_IR_VERSION:
        raise BadModel(
            f"{path} has ONNX IR version {model.ir_version}, refold reads up to "
            f"{MAX_IR_VERSION}: export it with an older onnx package"
        )


def _forget_ir_version(model: onnx.ModelProto) -> None:
    """Undo what differs between IR versions: old ones list weights as inputs."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = COMMON_IR_VERSION
