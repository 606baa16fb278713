"""Train the demo's digits network and export it as ONNX with BatchNorm kept.

Needs the extra ``train`` (``pip install refold[train]``). One-cycle SGD with
momentum, batch 32, random shifts by up to two pixels; nothing else. Resolution,
widths, shifts and epochs were chosen on the train split alone, a quarter of it
held out (``--validate``); the test split is scored once, by the run that exports.

Example::

    python models/train_digits.py --out models/digits.onnx
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from refold.data import load_data

CLASSES = 10
SHIFT = 2


def conv_bn(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolution without bias, then batch normalisation."""
    pad = kernel // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """Two 3x3 convolutions and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = conv_bn(channels, channels, 3)
        self.second = conv_bn(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] to the same shape."""
        return F.relu(self.second(F.relu(self.first(x))) + x)


class Shrink(nn.Module):
    """Depthwise 3x3 of stride 2, then 1x1 to more channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.depthwise = conv_bn(inputs, inputs, 3, stride=2, groups=inputs)
        self.pointwise = conv_bn(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H/2, W/2]."""
        return F.relu(self.pointwise(F.relu(self.depthwise(x))))


class DigitsNet(nn.Module):
    """Nine convolutions, 12 to 36 channels wide, for 24x24 grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(1, 12, 3, stride=2)
        self.body = nn.Sequential(
            Residual(12), Shrink(12, 24), Residual(24), Shrink(24, 36)
        )
        self.classifier = nn.Linear(36, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 1, 24, 24], pixel/255, to logits [N, 10]."""
        return self.classifier(self.body(F.relu(self.stem(x))).mean((2, 3)))


def read(split: str) -> tuple[Tensor, Tensor]:
    """Read the bundled digits: float images [N, 1, 24, 24] in 0..1, labels [N]."""
    data = load_data("digits", split=split)
    pixels = torch.from_numpy(data.images.transpose(0, 3, 1, 2) / np.float32(255))
    return pixels, torch.from_numpy(data.labels)


def shift(x: Tensor, rng: torch.Generator) -> Tensor:
    """Move a batch by the same random -SHIFT..SHIFT rows and columns."""
    down, right = torch.randint(0, 2 * SHIFT + 1, (2,), generator=rng).tolist()
    height, width = x.shape[2:]
    padded = F.pad(x, (SHIFT, SHIFT, SHIFT, SHIFT))
    return padded[:, :, down : down + height, right : right + width]


def train(
    model: nn.Module, images: Tensor, labels: Tensor, args: argparse.Namespace
) -> None:
    """Run one-cycle SGD over ``args.epochs`` epochs."""
    rng = torch.Generator().manual_seed(args.seed)
    steps = len(labels) // args.batch
    optimiser = torch.optim.SGD(
        model.parameters(), args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, args.lr, total_steps=steps * args.epochs, pct_start=0.2
    )
    model.train()
    for epoch in range(args.epochs):
        total = 0.0
        order = torch.randperm(len(labels), generator=rng)
        for part in order[: steps * args.batch].split(args.batch):
            loss = F.cross_entropy(model(shift(images[part], rng)), labels[part])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{args.epochs} loss {total / steps:.4f}", flush=True)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Top-1 accuracy in percent."""
    model.eval()
    return 100 * (model(images).argmax(1) == labels).float().mean().item()


def export(model: nn.Module, path: Path) -> None:
    """Write ONNX, opset 17, BatchNorm kept, batch dimension ``N``."""
    model.eval()
    # Training-mode export is the exporter's way of not folding BatchNorm; the
    # nodes themselves are written in inference mode because of eval().
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, 24, 24),),
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
    """Train; score the held-out quarter, or the test split and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=Path, help="train on the whole train split")
    target.add_argument(
        "--validate", action="store_true", help="hold out a quarter, export nothing"
    )
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = DigitsNet()
    images, labels = read("train")
    if args.validate:
        held = torch.arange(len(labels)) // 10 % 4 == 3
        train(model, images[~held], labels[~held], args)
        score = accuracy(model, images[held], labels[held])
        print(f"held-out accuracy {score:.2f} %")
        return 0
    train(model, images, labels, args)
    print(f"test accuracy {accuracy(model, *read('test')):.2f} %")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    export(model, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
