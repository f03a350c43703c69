"""Run the `energyalign` command with `python -m energyalign`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]  # added by `python -m`: do not import code from the current directory

from energyalign.cli.main import main

sys.exit(main())
