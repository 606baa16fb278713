"""Train ResNet-20 on CIFAR-10 and export it as ONNX with BatchNorm kept.

Needs the extra ``train`` (``pip install refold[train]``). One-cycle SGD with
momentum, batch 128, random crop and flip; nothing else. The test split is
scored once, after the last epoch.

Source: the 20-layer CIFAR ResNet of He et al., "Deep Residual Learning for
Image Recognition" (arXiv:1512.03385), section 4.2, with 1x1 projection
shortcuts where the shape changes.

Example::

    python models/train_cifar10.py --data PATH --out models/resnet20_cifar10.onnx --bf16

``PATH`` is a folder that holds ``train.zip`` and ``test.zip``, each with one
folder of images per class. That command, on CIFAR-10 re-encoded as JPEG, gave the
model of that name: 87.01 % on the test split.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)
CLASSES = 10


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet20(nn.Module):
    """Three stages of three blocks, 16, 32 and 64 channels wide."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        widths = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        blocks = []
        for inputs, outputs, stride in widths:
            blocks.append(Block(inputs, outputs, stride))
            blocks += [Block(outputs, outputs, 1) for _ in range(2)]
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(F.relu(self.bn(self.stem(x))))
        return self.classifier(x.mean((2, 3)))


def read_split(archive: Path) -> tuple[Tensor, Tensor]:
    """Read class folders from a zip: images [N, 3, 32, 32] uint8, labels [N]."""
    images, labels = [], []
    with zipfile.ZipFile(archive) as files:
        names = sorted(n for n in files.namelist() if n.lower().endswith(".jpg"))
        classes = sorted({PurePosixPath(n).parent.name for n in names})
        for name in names:
            with Image.open(io.BytesIO(files.read(name))) as image:
                images.append(np.asarray(image.convert("RGB")))
            labels.append(classes.index(PurePosixPath(name).parent.name))
    pixels = np.stack(images).transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(pixels)), torch.tensor(labels)


def normalise(pixels: Tensor) -> Tensor:
    """uint8 [N, 3, H, W] to float32, (pixel/255 - mean) / std."""
    mean = torch.tensor(MEAN).view(1, 3, 1, 1)
    std = torch.tensor(STD).view(1, 3, 1, 1)
    return (pixels.float() / 255 - mean) / std


def augment(x: Tensor, rng: torch.Generator) -> Tensor:
    """Random 32x32 crop out of a zero-padded 40x40 image, random flip."""
    count, _, height, width = x.shape
    padded = F.pad(x, (4, 4, 4, 4))
    top = torch.randint(0, 9, (count, 1), generator=rng) + torch.arange(height)
    left = torch.randint(0, 9, (count, 1), generator=rng) + torch.arange(width)
    flip = torch.rand(count, generator=rng) < 0.5
    left[flip] = left[flip].flip(1)
    index = torch.arange(count)[:, None, None]
    crop = padded.permute(0, 2, 3, 1)[index, top[:, :, None], left[:, None, :]]
    return crop.permute(0, 3, 1, 2)


@torch.no_grad()
def accuracy(model: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    """Top-1 accuracy in percent."""
    model.eval()
    right = 0
    for part in torch.arange(len(labels)).split(500):
        right += int((model(normalise(pixels[part])).argmax(1) == labels[part]).sum())
    return 100 * right / len(labels)


def train(
    model: nn.Module, pixels: Tensor, labels: Tensor, args: argparse.Namespace
) -> None:
    """One-cycle SGD over ``args.epochs`` epochs."""
    rng = torch.Generator().manual_seed(args.seed)
    steps = len(labels) // args.batch
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.SGD(
        [{"params": decay, "weight_decay": 5e-4}, {"params": rest, "weight_decay": 0}],
        lr=args.lr,
        momentum=0.9,
        nesterov=True,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, args.lr, total_steps=steps * args.epochs, pct_start=0.2
    )
    start = time.monotonic()
    for epoch in range(args.epochs):
        model.train()
        order = torch.randperm(len(labels), generator=rng)
        total = 0.0
        for step in range(steps):
            part = order[step * args.batch : (step + 1) * args.batch]
            x = augment(normalise(pixels[part]), rng)
            x = x.contiguous(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
                logits = model(x)
            loss = F.cross_entropy(logits.float(), labels[part])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        seconds = time.monotonic() - start
        print(
            f"epoch {epoch + 1}/{args.epochs} loss {total / steps:.4f} {seconds:.0f} s",
            flush=True,
        )


def export(model: nn.Module, path: Path) -> None:
    """Write ONNX, opset 17, BatchNorm kept, batch dimension ``N``."""
    model.eval()
    # Training-mode export is the exporter's way of not folding BatchNorm; the
    # nodes themselves are written in inference mode because of eval().
    torch.onnx.export(
        model,
        (torch.zeros(1, 3, 32, 32),),
        path,
        dynamo=False,
        opset_version=17,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}},
    )


def main() -> int:
    """Train, score once, export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = ResNet20().to(memory_format=torch.channels_last)
    pixels, labels = read_split(args.data / "train.zip")
    train(model, pixels, labels, args)
    model = model.to(memory_format=torch.contiguous_format)
    score = accuracy(model, *read_split(args.data / "test.zip"))
    print(f"test accuracy {score:.2f} %")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    export(model, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
