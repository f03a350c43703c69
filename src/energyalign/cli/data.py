"""`energyalign data`: are the images there, and if not, how to get them."""

from __future__ import annotations

import argparse

DESCRIPTION = "Look after the data sets of the experiments."
EXAMPLES = """\
examples:
  energyalign data check digits                                 (comes with scikit-learn: always there)
  energyalign data check cifar100 --data-root ~/data            (says which file is missing and how to get it)
  energyalign data check cifar100 --data-root ~/data --download (fetches it first)
  energyalign data check folder:my_images
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="say which files are there, which are missing and how to get them; decode every image",
        description="Look for every file of a data set, decode every image, and count the classes. Exits with 2 if "
        "something is missing or damaged, and says what to do.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = check.add_argument
    add("name", metavar="NAME", help="digits, fashion-mnist, cifar10, cifar100, imagenet, imagenet-lt, "
        "inaturalist18, folder:PATH, lists:PATH, parquet:PATH or features:PATH")  # fmt: skip
    add("--data-root", metavar="DIR", help="where the files of named sets are (default: data)")
    add("--download", action="store_true", help="fetch the set first, if its authors offer it without registration")


def run(arguments: argparse.Namespace) -> None:
    """Open, fetch if asked to, check."""
    from energyalign.cli.terminal import Progress
    from energyalign.core.errors import EnergyAlignError
    from energyalign.experiments.data import sources

    sources.check_source(arguments.name)  # an unknown name is told without what takes seconds to load
    try:
        from energyalign.experiments.data.verify import verify_source
    except ImportError as error:
        raise EnergyAlignError(
            f"data sets need {error.name}, which is not installed: pip install 'energyalign[experiments]'."
        ) from error
    source = sources.open_source(arguments.name, arguments.data_root)
    if arguments.download:
        source.download()
        source = sources.open_source(arguments.name, arguments.data_root)  # it looks around when it is opened
    with Progress() as progress:
        verify_source(source, print, progress=progress.show("decoding images"))
