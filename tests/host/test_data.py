"""Data specs: what is read, in which order, and what is refused."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from refold.corrupt import corrupt, image_rng
from refold.data import DataSet, load_data
from refold.data.cifar import CLASSES
from refold.errors import UserError

U8 = NDArray[np.uint8]


def png(value: int, size: tuple[int, int] = (32, 32), mode: str = "RGB") -> bytes:
    """Encode an image [H, W] of one value."""
    stream = io.BytesIO()
    Image.fromarray(np.full(size, value, np.uint8)).convert(mode).save(stream, "PNG")
    return stream.getvalue()


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    """Write files into a zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def class_files(per_class: int, base: int = 0) -> dict[str, bytes]:
    """CIFAR-10 class folders; pixel value = base + 10 x number + class."""
    return {
        f"{name}/{i:04d}.png": png(base + 10 * i + label)
        for label, name in enumerate(CLASSES)
        for i in range(per_class)
    }


def values(data: DataSet) -> list[int]:
    """The one value of each image."""
    return [int(image[0, 0, 0]) for image in data.images]


def refusal(spec: str, **options: object) -> str:
    """Message of the error that a spec causes."""
    with pytest.raises(UserError) as caught:
        load_data(spec, **{"split": "test", **options})
    return str(caught.value)


# --- class folders ---------------------------------------------------------------


@pytest.mark.parametrize("pack", [write_tree, lambda p, f: write_zip(p / "x.zip", f)])
def test_class_folders_come_round_robin(
    tmp_path: Path, pack: Callable[[Path, dict[str, bytes]], Path]
) -> None:
    """A folder and a zip give the first of each class, then the second of each."""
    data = load_data(f"cifar10:{pack(tmp_path, class_files(2))}", split="test")
    assert values(data) == list(range(20))
    assert data.labels.tolist() == [*range(10), *range(10)]
    assert data.classes == CLASSES


def test_limit_takes_the_first_of_the_same_order(tmp_path: Path) -> None:
    """A limited set is a prefix, so an image keeps its index and its noise."""
    spec = f"cifar10:{write_tree(tmp_path, class_files(2))}"
    whole, part = load_data(spec, split="test"), load_data(spec, split="test", limit=13)
    assert np.array_equal(part.images, whole.images[:13])
    assert np.array_equal(part.stream("fog", 5, 0), whole.stream("fog", 5, 0)[:13])


def test_limit_reads_no_other_file(tmp_path: Path) -> None:
    """Files beyond the limit are not decoded: they may be broken."""
    files = class_files(2) | {f"{CLASSES[3]}/0001.png": b"broken"}
    spec = f"cifar10:{write_zip(tmp_path / 'x.zip', files)}"
    assert len(load_data(spec, split="test", limit=10).labels) == 10
    assert f"{CLASSES[3]}/0001.png" in refusal(spec)


@pytest.mark.parametrize("form", ["zips", "folders", "inner"])
def test_split_is_chosen(tmp_path: Path, form: str) -> None:
    """Split zips, split folders and split folders in a zip: spec before default."""
    train, test = class_files(1, 100), class_files(1, 0)
    both = {f"train/{n}": c for n, c in train.items()}
    both |= {f"test/{n}": c for n, c in test.items()}
    path = tmp_path
    if form == "zips":
        write_zip(tmp_path / "train.zip", train)
        write_zip(tmp_path / "test.zip", test)
    elif form == "folders":
        write_tree(tmp_path, both)
    else:
        path = write_zip(tmp_path / "x.zip", both)
    assert values(load_data(f"cifar10:{path}", split="test"))[0] == 0
    assert values(load_data(f"cifar10:{path}", split="train"))[0] == 100
    assert values(load_data(f"cifar10:{path}#train", split="test"))[0] == 100


def test_folder_resizes_to_cover_and_cuts_the_centre(tmp_path: Path) -> None:
    """A wide image loses its left and right; grey becomes what the model takes."""
    wide = np.full((8, 24), 200, np.uint8)
    wide[:, 8:16] = 50
    stream = io.BytesIO()
    Image.fromarray(wide).save(stream, "PNG")
    write_tree(tmp_path, {"cat/a.png": stream.getvalue(), "dog/b.png": png(9)})
    data = load_data(f"folder:{tmp_path}", split="test", shape=(8, 8, 3))
    assert data.images.shape == (2, 8, 8, 3)
    assert np.unique(data.images[0]).tolist() == [50]
    assert np.unique(data.images[1]).tolist() == [9]


def test_folder_gives_grey_images_to_a_grey_model(tmp_path: Path) -> None:
    """Colour images are converted for a model with one channel."""
    write_tree(tmp_path, {"cat/a.png": png(77)})
    data = load_data(f"folder:{tmp_path}", split="test", shape=(32, 32, 1))
    assert data.images.shape == (1, 32, 32, 1)
    assert data.images[0, 0, 0, 0] == 77


def test_folder_without_a_model_wants_one_size(tmp_path: Path) -> None:
    """Images of two sizes and no shape to resize to are refused."""
    write_tree(tmp_path, {"a/1.png": png(1), "b/2.png": png(2, (16, 16))})
    message = refusal(f"folder:{tmp_path}")
    assert "b/2.png is 16x16x3" in message
    assert "32x32x3" in message


def test_other_classes_are_no_cifar(tmp_path: Path) -> None:
    """Labels would be wrong, so nine or other class folders are refused."""
    message = refusal(f"cifar10:{write_tree(tmp_path, {'cat/1.png': png(1)})}")
    assert "cat" in message
    assert "folder:PATH" in message


# --- official files --------------------------------------------------------------


def batch(count: int, start: int) -> bytes:
    """Pickle a CIFAR batch; red is its image's number, green and blue 0."""
    data = np.zeros((count, 3, 1024), np.uint8)
    data[:, 0] = (start + np.arange(count))[:, None]
    labels = [i % 10 for i in range(count)]
    content = {b"data": data.reshape(count, 3072), b"labels": labels}
    return pickle.dumps(content, protocol=2)


@pytest.mark.parametrize("packed", [False, True])
def test_official_batches(tmp_path: Path, packed: bool) -> None:
    """Python batches are read in order, channels last, from folder or archive."""
    files = {f"data_batch_{i}": batch(3, 10 * i) for i in range(1, 6)}
    files |= {"test_batch": batch(2, 0)}
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    write_tree(folder, files)
    path = tmp_path
    if packed:
        path = tmp_path / "cifar-10-python.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, "cifar-10-batches-py")
    train = load_data(f"cifar10:{path}", split="train", limit=5)
    assert values(train) == [10, 11, 12, 20, 21]
    assert train.images[0, 5, 5].tolist() == [10, 0, 0]
    assert train.labels.tolist() == [0, 1, 2, 0, 1]
    assert values(load_data(f"cifar10:{path}", split="test")) == [0, 1]


class Evil:
    """Pickles into a call."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.getcwd, ()


def test_batches_cannot_run_code(tmp_path: Path) -> None:
    """A pickle that calls a function is refused, not obeyed."""
    write_tree(tmp_path, {"test_batch": pickle.dumps({b"data": Evil()}, protocol=2)})
    assert "getcwd has no place in a CIFAR batch" in refusal(f"cifar10:{tmp_path}")


@pytest.mark.parametrize("repeated", [1, 5])
def test_official_corrupted_arrays(tmp_path: Path, repeated: int) -> None:
    """Rows of a severity come from the array; labels cover one severity or all."""
    rows = np.arange(20, dtype=np.uint8)
    array = np.broadcast_to(rows[:, None, None, None], (20, 32, 32, 3))
    np.save(tmp_path / "fog.npy", array)
    np.save(tmp_path / "labels.npy", np.tile([3, 1, 4, 1], repeated))
    data = load_data(f"cifar10c:{tmp_path}", split="test", limit=3)
    assert not data.has_clean
    assert data.labels.tolist() == [3, 1, 4]
    assert data.stream("fog", 5, 0)[:, 0, 0, 0].tolist() == [16, 17, 18]
    assert len(load_data(f"cifar100c:{tmp_path}", split="test").classes) == 100
    with pytest.raises(UserError, match="snow at severity 5"):
        data.require([("fog", 5), ("snow", 5)])


def test_official_corrupted_arrays_must_match_their_labels(tmp_path: Path) -> None:
    """Labels of another number are refused with both numbers."""
    np.save(tmp_path / "fog.npy", np.zeros((20, 32, 32, 3), np.uint8))
    np.save(tmp_path / "labels.npy", np.zeros(7, np.uint8))
    message = refusal(f"cifar10c:{tmp_path}")
    assert "(20, 32, 32, 3)" in message
    assert "7 entries" in message


def test_tiny_imagenet_c(tmp_path: Path) -> None:
    """Class folders below corruption and severity, the same images in each."""
    for corruption, base in (("fog", 0), ("snow", 100)):
        for i, label in ((0, "n01"), (1, "n02"), (2, "n01")):
            name = f"{corruption}/5/{label}/{i}.png"
            write_tree(tmp_path, {name: png(base + i, (64, 64))})
    data = load_data(f"tiny-imagenet-c:{tmp_path}", split="test")
    assert data.labels.tolist() == [0, 1, 0]
    assert data.stream("snow", 5, 0)[:, 0, 0, 0].tolist() == [100, 101, 102]
    (tmp_path / "snow/5/n01/2.png").unlink()
    with pytest.raises(UserError, match="snow"):
        data.stream("snow", 5, 0)


# --- npz -------------------------------------------------------------------------


def npz(path: Path, **arrays: NDArray[np.generic]) -> str:
    """Write an npz and give its spec."""
    np.savez(path / "x.npz", **arrays)
    return f"npz:{path / 'x.npz'}"


def test_npz_prefers_ready_images_and_makes_the_others(tmp_path: Path) -> None:
    """Arrays in the file are used as they are; what is missing is made from clean."""
    clean = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 1), np.uint8)
    spec = npz(tmp_path, labels=np.arange(4), clean=clean, fog_5=255 - clean)
    data = load_data(spec, split="test", limit=3)
    assert np.array_equal(data.stream("clean", 0, 0), clean[:3])
    assert np.array_equal(data.stream("fog", 5, 0), 255 - clean[:3])
    made = corrupt(clean[2], "snow", 4, image_rng(9, 2, "snow", 4))
    assert np.array_equal(data.stream("snow", 4, 9)[2], made)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"clean": np.zeros((2, 8, 8, 1), np.uint8)}, ["no array labels"]),
        ({"labels": np.zeros(2)}, ["found the arrays labels", "clean"]),
        (
            {"labels": np.arange(3), "clean": np.zeros((2, 8, 8, 1), np.uint8)},
            ["clean is 2x8x8x1", "3 labels"],
        ),
        (
            {"labels": np.arange(2), "clean": np.zeros((2, 8, 8, 1))},
            ["clean is not uint8"],
        ),
    ],
)
def test_npz_says_what_is_wrong(
    tmp_path: Path, arrays: dict[str, NDArray[np.generic]], words: list[str]
) -> None:
    """Missing, short and mistyped arrays are named."""
    message = refusal(npz(tmp_path, **arrays))
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.arange(2) * np.nan, ["labels are float64", "whole numbers"]),
        (np.arange(2.0), ["labels are float64"]),
        (np.array(["a", "b"]), ["labels are <U1"]),
        (np.zeros((2, 3), np.int64), ["of shape (2, 3)"]),
        (np.int64(3), ["of shape ()"]),
        (np.arange(2) - 5, ["labels run from -5 to -4"]),
        (np.arange(2, dtype=np.uint64) + (2**64 - 2), [f"from {2**64 - 2} to"]),
        (np.arange(2) + 90, ["labels 90..91", "10 outputs"]),
        (np.arange(2) + 10**12, [f"labels {10**12}..{10**12 + 1}", "10 outputs"]),
    ],
)
@pytest.mark.parametrize("source", ["npz", "cifar10c"])
def test_labels_that_are_no_classes(
    tmp_path: Path, source: str, labels: NDArray[np.generic], words: list[str]
) -> None:
    """What cannot be compared with the model's outputs is refused, as it was found."""
    if source == "npz":
        spec = npz(tmp_path, labels=labels, clean=np.zeros((2, 8, 8, 3), np.uint8))
    else:
        np.save(tmp_path / "labels.npy", labels)
        np.save(tmp_path / "fog.npy", np.zeros((10, 8, 8, 3), np.uint8))
        spec = f"cifar10c:{tmp_path}"
    message = refusal(spec, classes=10)
    assert [word for word in words if word not in message] == []


def test_a_column_of_labels_is_read(tmp_path: Path) -> None:
    """Some tools save labels as [N, 1], or in the narrowest type."""
    images = np.zeros((3, 8, 8, 1), np.uint8)
    for labels in (np.array([[2], [0], [9]]), np.array([2, 0, 9], np.uint8)):
        data = load_data(npz(tmp_path, labels=labels, clean=images), split="test")
        assert data.labels.tolist() == [2, 0, 9]
        assert data.labels.dtype == np.int64


def test_noise_is_labelled_with_the_models_classes() -> None:
    """A smoke test of a model with two outputs is not refused."""
    data = load_data("random:50", split="test", classes=2)
    assert set(data.labels.tolist()) == {0, 1}


def test_a_limit_bounds_noise() -> None:
    """Only images that are used are made."""
    assert len(load_data("random:99999999999", split="test", limit=3).labels) == 3


def test_an_array_beyond_the_memory_is_refused(tmp_path: Path) -> None:
    """A header that promises petabytes costs no traceback."""
    header = io.BytesIO()
    layout = {"descr": "|u1", "fortran_order": False, "shape": (10**15, 8, 8, 1)}
    np.lib.format.write_array_header_1_0(header, layout)
    spec = npz(tmp_path, labels=np.arange(2))
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("clean.npy", header.getvalue())
    assert "memory" in refusal(spec)


def test_hash_follows_images_and_labels(tmp_path: Path) -> None:
    """The hash changes with one pixel, one label or the number of images."""
    clean, labels = np.zeros((3, 8, 8, 1), np.uint8), np.zeros(3, np.int64)
    pixel, label = clean.copy(), labels.copy()
    pixel[2, 7, 7, 0], label[0] = 1, 1
    sets = [(clean, labels), (pixel, labels), (clean, label), (clean[:2], labels[:2])]
    hashes = [
        load_data(npz(tmp_path, clean=c, labels=y), split="test").sha256
        for c, y in sets
    ]
    assert len(set(hashes)) == len(sets)
    again = load_data(npz(tmp_path, clean=clean, labels=labels), split="test").sha256
    assert again == hashes[0]


# --- other specs and mistakes ----------------------------------------------------


def test_random_warns(caplog: pytest.LogCaptureFixture) -> None:
    """Noise comes with the warning that ranges mean nothing."""
    data = load_data("random:5", split="train", shape=(6, 7, 2))
    assert data.images.shape == (5, 6, 7, 2)
    assert "mean nothing" in caplog.text


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("cifar01:x", ["cifar01:x", "did you mean cifar10", "npz:PATH"]),
        ("cifar10", ["cifar10:PATH"]),
        ("digits:x", ["digits"]),
        ("random:few", ["random:N", "from 1 to 349525"]),
        ("random:0", ["from 1 to 349525"]),
        ("random:99999999999", ["from 1 to 349525"]),
        ("npz:/no/such/file.npz", ["file.npz", "does not exist"]),
        ("folder:/no/such/folder", ["does not exist"]),
    ],
)
def test_mistaken_specs(spec: str, words: list[str]) -> None:
    """Each message names what was found and what is expected."""
    message = refusal(spec)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("kind", ["cifar10", "folder", "npz"])
def test_garbage_files(tmp_path: Path, kind: str) -> None:
    """A file that is no archive is named."""
    (tmp_path / "junk").write_bytes(b"not an archive")
    assert "junk" in refusal(f"{kind}:{tmp_path / 'junk'}")


def test_broken_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no image, half of one or absurdly large is named, once."""
    whole = png(7)
    for content in (b"no image", b"", whole[:20], whole[:45]):
        root = write_tree(tmp_path, {"a/x.png": content})
        message = refusal(f"folder:{root}")
        assert "a/x.png cannot be decoded" in message
        assert "object at 0x" not in message
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert "a/x.png" in refusal(f"folder:{write_tree(tmp_path, {'a/x.png': whole})}")


@pytest.mark.parametrize("kind", ["cifar10", "cifar10c", "tiny-imagenet-c", "folder"])
def test_empty_folders(tmp_path: Path, kind: str) -> None:
    """A folder without data is named."""
    assert str(tmp_path) in refusal(f"{kind}:{tmp_path}")


def test_shape_of_another_model(tmp_path: Path) -> None:
    """Images of another size than the model's are refused with both sizes."""
    spec = f"cifar10:{write_tree(tmp_path, class_files(1))}"
    message = refusal(spec, shape=(24, 24, 3))
    assert "32x32x3" in message
    assert "24x24x3" in message
    arrays = {"labels": np.arange(2), "clean": np.zeros((2, 8, 8, 1), np.uint8)}
    assert "8x8x1" in refusal(npz(tmp_path, **arrays), shape=(32, 32, 3))


def test_a_split_that_is_not_there(tmp_path: Path) -> None:
    """Asking for a split of class folders without splits is refused."""
    spec = f"cifar10:{write_tree(tmp_path, class_files(1))}#train"
    assert "train split" in refusal(spec)


def test_shared_cifar10(shared: Path) -> None:
    """512 calibration images come from the train split, balanced over classes."""
    data = load_data(f"cifar10:{shared / 'data' / 'cifar10'}", split="train", limit=512)
    assert data.images.shape == (512, 32, 32, 3)
    assert np.bincount(data.labels).tolist() == [52, 52] + [51] * 8


def test_shared_npz(shared: Path) -> None:
    """The shared CIFAR-10-C sample has clean and ready-made images."""
    path = shared / "data" / "cifar10c_sev5_1000.npz"
    data = load_data(f"npz:{path}", split="test", limit=9)
    assert data.has_clean
    assert data.ready is not None
    assert len(data.ready) == 15
    assert data.stream("jpeg_compression", 5, 0).shape == (9, 32, 32, 3)
