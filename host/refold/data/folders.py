"""Class folders of image files, in a folder or a zip.

The class of an image is the folder that holds it. Images come round-robin over
the classes (sorted by name), within a class in the order of their file names,
so that the first N are as balanced as the data allows.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from refold.data.dataset import U8, DataSet, as_labels
from refold.data.request import Request, Shape, by
from refold.data.trees import Tree, open_tree
from refold.errors import UserError

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")
_SPLIT_FOLDERS = {"train": ("train",), "test": ("test", "val")}


def load_folder(request: Request) -> DataSet:
    """Read ``folder:PATH``, every image resized to the model's input."""
    return read_classes(request, request.path, resize=True)


def read_classes(request: Request, path: Path, *, resize: bool) -> DataSet:
    """Read the class folders below a folder or inside a zip.

    Args:
        request: Its split selects among folders ``train`` and ``test`` (or
            ``val``) where the path holds such.
        path: Of the folder or zip.
        resize: Fit images to the requested shape instead of refusing others.
    """
    with open_tree(path) as tree:
        names = _of_split(request, _image_names(tree))
        classes = sorted({class_of(name) for name in names})
        if not classes:
            raise UserError(
                f"{request.spec}: {path} holds no images in class folders; expected "
                f"CLASS/NAME with one of the endings {', '.join(_SUFFIXES)}"
            )
        used = round_robin(names)[: request.limit]
        images = read_images(request, tree, used, resize=resize)
    numbers = [classes.index(class_of(name)) for name in used]
    return DataSet(
        spec=request.spec,
        images=images,
        labels=as_labels(numbers, request.spec),
        classes=tuple(classes),
    )


def class_of(name: str) -> str:
    """Return the folder that holds the image."""
    return name.rsplit("/", 2)[-2]


def round_robin(names: Iterable[str]) -> list[str]:
    """Order sorted names: the first of each class, the second of each, ..."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(class_of(name), []).append(name)
    rounds = zip_longest(*(groups[label] for label in sorted(groups)))
    return [name for name in chain.from_iterable(rounds) if name is not None]


def _image_names(tree: Tree) -> list[str]:
    """Return image files that lie in some folder, hidden ones left out."""
    return [
        name
        for name in tree.names()
        if "/" in name
        and name.lower().endswith(_SUFFIXES)
        and not name.startswith((".", "__"))
        and "/." not in name
    ]


def _of_split(request: Request, names: list[str]) -> list[str]:
    """Keep the names of one split where there are folders for splits."""
    above = [set(name.split("/")[:-2]) for name in names]
    seen = set().union(*above)
    splits = {s for s, folders in _SPLIT_FOLDERS.items() if seen & set(folders)}
    if not splits and not request.split_given:
        return names
    if request.split not in splits:
        found = " and ".join(sorted(splits)) or "class folders without splits"
        raise UserError(
            f"{request.spec}: asked for the {request.split} split, found {found}; "
            "add #train or #test to the path only where both lie below it"
        )
    folder = next(f for f in _SPLIT_FOLDERS[request.split] if f in seen)
    return [n for n, parts in zip(names, above, strict=True) if folder in parts]


def read_images(request: Request, tree: Tree, names: list[str], *, resize: bool) -> U8:
    """Decode images [N, H, W, C]; without a requested shape, of the first's."""
    first = _decode(request, tree, names[0])
    shape = request.shape or _shape_of(first)
    if len(shape) != 3 or shape[2] not in (1, 3):
        raise UserError(
            f"{request.spec} gives images with 1 or 3 channels, the model takes "
            f"{by(shape)}; use npz:PATH with arrays of that shape"
        )
    images = np.empty((len(names), *shape), np.uint8)
    for index, name in enumerate(names):
        image = first if index == 0 else _decode(request, tree, name)
        images[index] = _fit(request, image, shape, name, resize=resize)
    return images


def _decode(request: Request, tree: Tree, name: str) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(tree.read(name)))
        image.load()
    except UnidentifiedImageError as error:
        raise _undecodable(request, name, "no image, whatever its name says") from error
    except (OSError, zipfile.BadZipFile, *_BROKEN_IMAGE) as error:
        raise _undecodable(request, name, str(error)) from error
    return image


_BROKEN_IMAGE = (Image.DecompressionBombError, SyntaxError, ValueError, zlib.error)
"""What Pillow raises, beside OSError, at files that are damaged or absurd."""


def _undecodable(request: Request, name: str, why: str) -> UserError:
    return UserError(
        f"{request.spec}: {name} cannot be decoded ({why}); replace or remove the file"
    )


def _shape_of(image: Image.Image) -> Shape:
    """Return (H, W, C) of an image; whatever is not grey counts as colour."""
    return (image.height, image.width, 1 if image.mode in {"1", "L"} else 3)


def _fit(
    request: Request, image: Image.Image, shape: Shape, name: str, *, resize: bool
) -> U8:
    """Give an image the shape (H, W, C).

    Resizing keeps the proportions: the image is scaled (bilinear, antialiased)
    until it covers the input, and its centre is cut out.
    """
    height, width, channels = shape
    if image.size != (width, height):
        if not resize or request.shape is None:
            found = (image.height, image.width, channels)
            raise UserError(
                f"{request.spec}: {name} is {by(found)}, expected {by(shape)}; "
                "bring all images to one size (folder:PATH resizes them to a model's "
                "input)"
            )
        size, method = (width, height), Image.Resampling.BILINEAR
        image = ImageOps.fit(image.convert("RGB"), size, method)
    return np.asarray(image.convert("L" if channels == 1 else "RGB")).reshape(shape)
