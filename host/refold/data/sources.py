"""Where the public data sets lie: official addresses, sizes and checksums.

CIFAR-10: its authors' page, https://www.cs.toronto.edu/~kriz/cifar.html, which
lists the MD5. The corrupted sets: Zenodo records 2535967, 3555552 and 2536630 of
Hendrycks and Dietterich, linked from https://github.com/hendrycks/robustness;
Zenodo publishes each file's size and MD5.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One archive.

    Attributes:
        url: Of the file.
        folder: What it unpacks to.
        bytes: Its size; None where it is asked for.
        md5: Of it; None where it is asked for, at ``record``.
        record: Zenodo's description of the file, as JSON.
        unpacked_bytes: About what the unpacked files take.
        spec: How the data spec begins that reads it.
    """

    url: str
    folder: str
    bytes: int | None
    md5: str | None
    record: str | None
    unpacked_bytes: int
    spec: str

    @property
    def file(self) -> str:
        """Name of the archive."""
        return self.url.rsplit("/", 1)[-1]


def _zenodo(
    record: int, name: str, spec: str, *, md5: str | None, size: int | None, bytes_: int
) -> Source:
    return Source(
        url=f"https://zenodo.org/records/{record}/files/{name}.tar",
        folder=name,
        bytes=size,
        md5=md5,
        record=f"https://zenodo.org/api/records/{record}",
        unpacked_bytes=bytes_,
        spec=spec,
    )


SOURCES: dict[str, Source] = {
    "cifar10": Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        folder="cifar-10-batches-py",
        bytes=170_498_071,
        md5="c58f30108f718f92721af3b95e74349a",
        record=None,
        unpacked_bytes=186_000_000,
        spec="cifar10",
    ),
    "cifar10c": _zenodo(
        2535967,
        "CIFAR-10-C",
        "cifar10c",
        md5="56bf5dcef84df0e2308c6dcbcbbd8499",
        size=2_918_471_680,
        bytes_=2_920_000_000,
    ),
    "cifar100c": _zenodo(
        3555552,
        "CIFAR-100-C",
        "cifar100c",
        md5="11f0ed0f1191edbf9fa23466ae6021d3",
        size=2_918_473_216,
        bytes_=2_920_000_000,
    ),
    # Its checksum is taken from the record when it is fetched.
    "tiny-imagenet-c": _zenodo(
        2536630,
        "Tiny-ImageNet-C",
        "tiny-imagenet-c",
        md5=None,
        size=None,
        bytes_=8_000_000_000,
    ),
}
