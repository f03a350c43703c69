"""`python -m energyalign` is the `energyalign` command."""

import sys

from energyalign.cli.main import main

sys.exit(main())
