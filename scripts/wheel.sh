#!/usr/bin/env bash
# A wheel in dist/: the Python package, its extension, and the program as the script `pycandle`.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python - <<'PYTHON'
from pathlib import Path

from scikit_build_core import build

Path("dist").mkdir(exist_ok=True)
print("dist/" + build.build_wheel("dist"))
PYTHON
