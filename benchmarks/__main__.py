"""`python -m benchmarks`: the same as `python benchmarks/run.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from run import main

sys.exit(main())
