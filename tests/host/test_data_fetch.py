"""Downloads of data sets, from a server in this process."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import socket
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from refold.cli import status
from refold.corrupt import CORRUPTIONS
from refold.data import download as download_module
from refold.data import load_data
from refold.data.download import download
from refold.data.fetch import fetch
from refold.data.sources import SOURCES, Source
from refold.errors import InfraError, UserError
from refold.watch import Watch

CONTENT = np.random.default_rng(5).bytes(1 << 20)


class Server(ThreadingHTTPServer):
    """Serves ``files``; the rest says how badly.

    Attributes:
        cuts: Bytes after which each of the next answers breaks off.
        ranges: It can give parts of files.
        status: Of every answer where it is not 200 or 206.
        asked: The Range header of each request, "" without one.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/data.bin": CONTENT}
        self.cuts: list[int] = []
        self.ranges = True
        self.status: int | None = None
        self.asked: list[str] = []

    def url(self, path: str = "/data.bin") -> str:
        """The address of a file."""
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    """One request to the server."""

    server: Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        wanted = self.headers["Range"] or ""
        self.server.asked.append(wanted)
        content = self.server.files.get(self.path)
        if content is None or self.server.status is not None:
            self.send_error(self.server.status or 404)
            return
        start = 0
        if wanted and self.server.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
            self.send_response(206)
            last = len(content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + self.server.cuts.pop(0) if self.server.cuts else len(content)
        self.wfile.write(content[start:end])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on this computer."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download_module, "_PAUSE_S", 0.0)
    with Server() as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def md5(data: bytes) -> str:
    """The checksum as publishers give it."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


# --- one file -----------------------------------------------------------------


def test_a_file_arrives(server: Server, tmp_path: Path) -> None:
    """Whole, under its name alone, and progress ends at its size."""
    seen: list[tuple[int, int | None]] = []
    target = tmp_path / "data.bin"
    download(
        server.url(),
        target,
        size=len(CONTENT),
        md5=md5(CONTENT),
        progress=lambda *now: seen.append(now),
    )
    assert target.read_bytes() == CONTENT
    assert [target] == list(tmp_path.iterdir())
    assert (len(CONTENT), len(CONTENT)) == seen[-1]
    assert seen == sorted(seen)


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_broken_download_goes_on(
    size: int | None, server: Server, tmp_path: Path
) -> None:
    """Each request asks for what is missing, and no byte comes twice."""
    server.cuts = [300_000, 400_000]
    target = tmp_path / "data.bin"
    download(server.url(), target, size=size, md5=md5(CONTENT))
    assert target.read_bytes() == CONTENT
    assert ["", "bytes=300000-", "bytes=700000-"] == server.asked


def test_another_call_goes_on(server: Server, tmp_path: Path) -> None:
    """What an earlier process left is used."""
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:1234])
    download(server.url(), tmp_path / "data.bin", size=len(CONTENT), md5=md5(CONTENT))
    assert ["bytes=1234-"] == server.asked
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_sends_all(server: Server, tmp_path: Path) -> None:
    """The kept part is replaced, not continued."""
    server.ranges, server.cuts = False, [500_000]
    target = tmp_path / "data.bin"
    download(server.url(), target, size=len(CONTENT), md5=md5(CONTENT))
    assert target.read_bytes() == CONTENT
    assert ["", "bytes=500000-"] == server.asked


def test_a_server_that_keeps_breaking_off_is_given_up(
    server: Server, tmp_path: Path
) -> None:
    """After several answers without a byte; what came is kept."""
    server.cuts = [1000, *[0] * 20]
    with pytest.raises(InfraError, match="1000 bytes are kept in"):
        download(server.url(), tmp_path / "data.bin", size=len(CONTENT))
    assert CONTENT[:1000] == (tmp_path / "data.bin.part").read_bytes()


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """Both sums are named, and the next call starts anew."""
    with pytest.raises(UserError, match=f"MD5 {md5(CONTENT)}, expected 0bad"):
        download(server.url(), tmp_path / "data.bin", md5="0bad")
    assert [] == list(tmp_path.iterdir())


def test_a_wrong_size_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """A file that has grown at its source is another file."""
    with pytest.raises(UserError, match="1048576 bytes came, expected 5"):
        download(server.url(), tmp_path / "data.bin", size=5)
    assert [] == list(tmp_path.iterdir())


def test_a_missing_file_is_named(server: Server, tmp_path: Path) -> None:
    """404 is final, and asked for once."""
    with pytest.raises(UserError, match="answers 404 Not Found; the file has moved"):
        download(server.url("/other"), tmp_path / "other")
    assert 1 == len(server.asked)


def test_an_overloaded_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    """503 passes, or ends as infrastructure."""
    server.status = 503
    with pytest.raises(InfraError, match="broke off 5 times"):
        download(server.url(), tmp_path / "data.bin")
    assert download_module.TRIES == len(server.asked)


def test_no_network_says_what_to_do(tmp_path: Path) -> None:
    """A computer that is offline gets one message with a way round."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(UserError, match=r"cannot be reached .* by hand"):
        download(f"http://127.0.0.1:{port}/data.bin", tmp_path / "data.bin")


def test_a_full_disk_is_told_first(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a byte is written."""
    usage = SimpleNamespace(total=10, used=9, free=1)
    monkeypatch.setattr(download_module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"GB are needed, the disk has 0.0 GB free"):
        download(server.url(), tmp_path / "data.bin")
    assert [] == list(tmp_path.iterdir())


# --- data sets --------------------------------------------------------------------


def archive_of(files: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    """An array as .npy."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def cifar10() -> bytes:
    """The official layout with three images a batch."""
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    rng = np.random.default_rng(1)
    batch = {
        b"data": rng.integers(0, 256, (3, 3072), dtype=np.uint8),
        b"labels": [2, 0, 9],
    }
    files = {f"cifar-10-batches-py/{n}": pickle.dumps(batch, 2) for n in names}
    return archive_of(files, "w:gz")


def cifar_c(folder: str, classes: int) -> bytes:
    """The official layout with two images a severity; extra corruptions included."""
    rng = np.random.default_rng(2)
    files = {f"{folder}/labels.npy": npy(np.tile([1, classes - 1], 5))}
    for name in (*CORRUPTIONS, "speckle_noise"):
        images = rng.integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
        files[f"{folder}/{name}.npy"] = npy(images)
    return archive_of(files)


def tiny_imagenet_c() -> bytes:
    """The official layout with one image in each of two classes."""
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (10, 200, 30)).save(buffer, "JPEG")
    return archive_of(
        {
            f"Tiny-ImageNet-C/{name}/{severity}/{label}/val_1.JPEG": buffer.getvalue()
            for name in CORRUPTIONS
            for severity in range(1, 6)
            for label in ("n01443537", "n01629819")
        }
    )


MAKERS: dict[str, tuple[Callable[[], bytes], tuple[int, ...], list[int]]] = {
    "cifar10": (cifar10, (32, 32, 3), [2, 0, 9]),
    "cifar10c": (lambda: cifar_c("CIFAR-10-C", 10), (32, 32, 3), [1, 9]),
    "cifar100c": (lambda: cifar_c("CIFAR-100-C", 100), (32, 32, 3), [1, 99]),
    "tiny-imagenet-c": (tiny_imagenet_c, (64, 64, 3), [0, 1]),
}
"""The archive in the official layout, an image's shape, the labels."""


def served(server: Server, name: str) -> Source:
    """The data set's source, moved to ``server``, with what lies there."""
    real, content = SOURCES[name], MAKERS[name][0]()
    server.files[f"/{real.file}"] = content
    record = None
    if real.record is not None:
        about = {
            "key": real.file,
            "size": len(content),
            "checksum": f"md5:{md5(content)}",
            "links": {"self": "unused"},
        }
        server.files["/record"] = json.dumps({"id": 1, "files": [about]}).encode()
        record = server.url("/record")
    known = real.md5 is not None
    return replace(
        real,
        url=server.url(f"/{real.file}"),
        bytes=len(content) if known else None,
        md5=md5(content) if known else None,
        record=record,
        unpacked_bytes=10_000_000,
    )


@pytest.mark.parametrize("name", SOURCES)
def test_a_data_set_is_fetched_and_read(
    name: str, server: Server, tmp_path: Path
) -> None:
    """Unpacked from the official layout, it is what its data spec reads."""
    source = served(server, name)
    folder = fetch(source, tmp_path, watch=Watch())
    assert [folder] == list(tmp_path.iterdir())
    _, shape, labels = MAKERS[name]
    data = load_data(f"{source.spec}:{folder}", split="test", shape=shape)
    assert labels == data.labels.tolist()
    images = data.stream(CORRUPTIONS[0], 5, 0)
    assert (len(labels), *shape) == images.shape


def test_what_is_there_is_kept(server: Server, tmp_path: Path) -> None:
    """A second call asks nobody."""
    source = served(server, "cifar10c")
    fetch(source, tmp_path, watch=Watch())
    asked = len(server.asked)
    assert tmp_path / "CIFAR-10-C" == fetch(source, tmp_path, watch=Watch())
    assert asked == len(server.asked)


def test_an_archive_brought_by_hand_is_used(server: Server, tmp_path: Path) -> None:
    """As the message for offline computers says; another file is refused."""
    source = served(server, "cifar100c")
    archive = tmp_path / source.file
    archive.write_bytes(b"something else")
    with pytest.raises(UserError, match="is not the official file"):
        fetch(source, tmp_path, watch=Watch())
    archive.write_bytes(server.files[f"/{source.file}"])
    assert tmp_path / "CIFAR-100-C" == fetch(source, tmp_path, watch=Watch())
    assert [] == server.asked


def test_an_archive_that_leaves_its_folder_is_refused(
    server: Server, tmp_path: Path
) -> None:
    """Whatever its checksum, nothing is written elsewhere."""
    content = archive_of({"../outside": b"x"})
    source = served(server, "cifar10c")
    server.files[f"/{source.file}"] = content
    source = replace(source, bytes=len(content), md5=md5(content))
    with pytest.raises(UserError, match="cannot be unpacked"):
        fetch(source, tmp_path / "data", watch=Watch())
    assert not (tmp_path / "outside").exists()


def test_a_record_that_makes_no_sense_is_told(server: Server, tmp_path: Path) -> None:
    """The checksum cannot be had, so nothing is downloaded unchecked."""
    source = served(server, "tiny-imagenet-c")
    server.files["/record"] = b'{"files": []}'
    with pytest.raises(UserError, match=r"is no record of Tiny-ImageNet-C.tar"):
        fetch(source, tmp_path, watch=Watch())
    assert [] == list(tmp_path.iterdir())


def test_the_command_says_how_to_use_it(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The data spec is on the terminal, ready to be copied."""
    monkeypatch.setitem(SOURCES, "cifar10", served(server, "cifar10"))
    assert 0 == status(["data", "fetch", "cifar10", "-o", str(tmp_path)])
    folder = tmp_path / "cifar-10-batches-py"
    assert f"--data cifar10:{folder}" in capsys.readouterr().out


def test_an_unknown_name_lists_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is a usage error."""
    assert 2 == status(["data", "fetch", "imagenet"])
    assert "tiny-imagenet-c" in capsys.readouterr().err
