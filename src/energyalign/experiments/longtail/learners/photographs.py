"""Small images or photographs: some originals have other hyper-parameters for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from energyalign.experiments.longtail.setting import Setting


def of_photographs(setting: Setting) -> bool:
    """Whether the training images are files of any size, as those of ImageNet-LT and iNaturalist are."""
    from energyalign.experiments.data.file_images import FileImages

    return isinstance(setting.train, FileImages)
