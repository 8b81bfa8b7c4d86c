#!/usr/bin/env bash
# A wheel in dist/ (or the folder that is given): the Python package with its extension, the program as the script
# `pycandle`, and the C++ library with its headers and CMake package.
set -euo pipefail
cd "$(dirname "$0")/.."
export CXX=${CXX:-c++} # the name that `make build` compiles by: the compiler cache tells names apart
.venv/bin/python - "${1:-dist}" <<'PYTHON'
import sys
from pathlib import Path

from scikit_build_core import build

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
print(folder / build.build_wheel(str(folder)))
PYTHON
