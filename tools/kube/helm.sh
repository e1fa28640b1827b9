#!/bin/bash
# helm.sh ARGS...: helm, built once from the Go module proxy into $CACHE/helm (tools/helm/go.mod says which version; 400 MB of modules and some minutes on two processors).
# CHECK=1 builds nothing: exit code 0 says that it is there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
want=$(cd "$here/../helm" && go list -m -f '{{.Version}}' helm.sh/helm/v3)
if [ "$("$CACHE/helm" version --template '{{.Version}}' 2>/dev/null || true)" != "$want" ]; then
  [ "${CHECK-}" ] && { echo "no helm $want in $CACHE: tools/kube/helm.sh version makes it once" >&2; exit 1; }
  mkdir -p "$CACHE"
  C=helm.sh/helm/v3/pkg/chartutil R=helm.sh/helm/v3/pkg/lint/rules minor=$(echo "$VERSION" | cut -d. -f2) # else it takes every cluster for v1.20
  (cd "$here/../helm" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false nice -n 19 go build -trimpath -o "$CACHE/helm" -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$want \
    -X $C.k8sVersionMajor=1 -X $C.k8sVersionMinor=$minor -X $R.k8sVersionMajor=1 -X $R.k8sVersionMinor=$minor" helm.sh/helm/v3/cmd/helm) >&2
fi
[ "${CHECK-}" ] || exec "$CACHE/helm" "$@"
