"""Images with labels: where they come from, how a long tail is cut out of them, and how they become batches."""

from energyalign.data.batch import Batch
from energyalign.data.cut import cut_long_tail, long_tail_indices
from energyalign.data.file_images import FileImages
from energyalign.data.file_loader import FileLoader
from energyalign.data.images import ImageSet, MemoryImages
from energyalign.data.loader import Loader, evaluation_batches, make_loader
from energyalign.data.manifest import Manifest
from energyalign.data.memory_loader import MemoryLoader
from energyalign.data.order import Order
from energyalign.data.profiles import PROFILES
from energyalign.data.sources import SOURCES, Source, open_source
from energyalign.data.verify import BadFilesError, verify_images

__all__ = [
    "PROFILES",
    "SOURCES",
    "BadFilesError",
    "Batch",
    "FileImages",
    "FileLoader",
    "ImageSet",
    "Loader",
    "Manifest",
    "MemoryImages",
    "MemoryLoader",
    "Order",
    "Source",
    "cut_long_tail",
    "evaluation_batches",
    "long_tail_indices",
    "make_loader",
    "open_source",
    "verify_images",
]
