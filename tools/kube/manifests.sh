#!/bin/bash
# manifests.sh [FOLDER]: writes deploy/kubernetes (or FOLDER): what the chart gives with the values that it comes with, one file for each of its templates, and SUMS, by
# which `make test`, that has no helm, sees whether the chart has changed since.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$here/../.."
out=${1:-deploy/kubernetes} chart=deploy/helm/retake
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
"$here/helm.sh" template retake $chart -n retake --output-dir "$t" > /dev/null
mkdir -p "$out"; rm -f "$out"/*.yaml
for f in "$t"/retake/templates/*.yaml; do
  { echo "# Made by \`make kube-manifests\` of $chart, with its own values: change those, or this file by hand (docs/specs/kubernetes.md)."; cat "$f"; } > "$out/$(basename "$f")"
done
{ find $chart -type f | LC_ALL=C sort | xargs sha256sum; (cd "$out" && sha256sum -- *.yaml); } > "$t/SUMS"
mv "$t/SUMS" "$out/SUMS"
