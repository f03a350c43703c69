"""`energyalign data`: check data sets, and download them."""

from __future__ import annotations

import argparse

DESCRIPTION = "Check the data sets of the experiments."
EXAMPLES = """\
examples:
  energyalign data check digits                                  comes with scikit-learn
  energyalign data check cifar100 --data-root ~/data             lists missing files and how to get them
  energyalign data check cifar100 --data-root ~/data --download  downloads it first
  energyalign data check folder:my_images
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="list missing files and how to get them; decode every image",
        description="Look for every file of a data set, decode every image, and count the classes.\n"
        "If anything is missing or damaged, say what to do and exit with code 2.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = check.add_argument
    add("name", metavar="NAME", help="digits, fashion-mnist, cifar10, cifar100, imagenet, imagenet-lt, "
        "inaturalist18, folder:PATH, lists:PATH, parquet:PATH or features:PATH")  # fmt: skip
    add("--data-root", metavar="DIR", help="folder of the data set (default: data)")
    add("--download", action="store_true",
        help="download the data set first, if its authors offer it without registration")  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Check a data set; with --download, download it first."""
    from energyalign.cli.terminal import Progress
    from energyalign.core.errors import EnergyAlignError
    from energyalign.experiments.data import sources

    sources.check_source(arguments.name)  # fail on an unknown name before the slow imports
    try:
        from energyalign.experiments.data.verify import verify_source
    except ImportError as error:
        raise EnergyAlignError(
            f"data sets need {error.name}, which is not installed: pip install 'energyalign[experiments]'."
        ) from error
    source = sources.open_source(arguments.name, arguments.data_root)
    if arguments.download:
        source.download()
        source = sources.open_source(arguments.name, arguments.data_root)  # opening a source looks for its files
    with Progress() as progress:
        verify_source(source, print, progress=progress.show("decoding images"))
