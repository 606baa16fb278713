"""Labelled images from a data spec.

========================  ======================================================
``digits``                bundled handwritten digits
``cifar10:PATH``          folder or zip of class folders, folder with train.zip
                          and test.zip, or the official Python batches;
                          ``#train`` or ``#test`` picks the split
``cifar10c:PATH``,        official corrupted sets: one .npy a corruption
``cifar100c:PATH``
``tiny-imagenet-c:PATH``  official corrupted set: class folders
``folder:PATH``           class folders of images of any size
``npz:PATH``              arrays ``labels``, ``clean``, ``<corruption>_<severity>``
``random:N``              noise, for smoke tests
========================  ======================================================
"""

from refold.data.dataset import DataSet
from refold.data.load import SPECS, load_data

__all__ = ["SPECS", "DataSet", "load_data"]
