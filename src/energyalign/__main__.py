"""`python -m energyalign` is the `energyalign` command."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]  # Python puts the current folder there: it may be anybody's, and no code is imported from it

from energyalign.cli.main import main

sys.exit(main())
