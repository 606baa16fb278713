"""The bundled digits: 1,797 handwritten digits, 8x8, 16 grey levels.

See ``refold/_assets/digits.txt`` for their origin. White ink on black, value v
of 0..16 becomes round(v * 255 / 16), then Pillow's bilinear filter enlarges the
image to 24x24 or to the height and width the model takes. The split is fixed:
of every fifty images in file order the last ten are the test split (357), the
rest the train split (1,440).
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from PIL import Image

from refold.data.dataset import U8, DataSet, as_labels
from refold.data.request import Request, by
from refold.errors import UserError

SHAPE = (24, 24, 1)


def load_digits(request: Request) -> DataSet:
    """Read ``digits``."""
    shape = request.shape or SHAPE
    if len(shape) != 3 or shape[2] != 1:
        raise UserError(
            f"{request.spec} has grey images, HEIGHTxWIDTHx1; the model takes "
            f"{by(shape)}; give it data of its own kind"
        )
    asset = files("refold").joinpath("_assets/digits.npz")
    with asset.open("rb") as stream, np.load(stream) as arrays:
        small = arrays["images"]
        labels = as_labels(arrays["labels"], request.spec)
    tested = np.arange(len(labels)) // 10 % 5 == 4
    used = np.flatnonzero(tested == (request.split == "test"))[: request.limit]
    return DataSet(
        spec=request.spec,
        images=np.stack([_enlarge(small[i], shape[0], shape[1]) for i in used]),
        labels=labels[used],
        classes=tuple("0123456789"),
    )


def _enlarge(digit: U8, height: int, width: int) -> U8:
    """8x8 values 0..16 to uint8 [H, W, 1]."""
    grey = np.rint(digit * (255 / 16)).astype(np.uint8)
    image = Image.fromarray(grey).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)[:, :, None]
