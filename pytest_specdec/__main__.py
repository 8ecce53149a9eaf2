"""``python -m pytest_specdec``: the commands beside pytest."""

import sys

from pytest_specdec.cli.main import main

sys.exit(main())
