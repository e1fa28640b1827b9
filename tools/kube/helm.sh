#!/bin/bash
# helm.sh ARGS...: runs helm. The first call builds it from the Go module proxy into $CACHE/helm, in the version from
# tools/helm/go.mod. The build fetches 400 MB of modules and takes some minutes on two processors. CHECK=1 only checks:
# exit code 0 means that helm exists.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
want=$(cd "$here/../helm" && go list -m -f '{{.Version}}' helm.sh/helm/v3)
if [ "$("$CACHE/helm" version --template '{{.Version}}' 2>/dev/null || true)" != "$want" ]; then
  [ "${CHECK-}" ] && { echo "helm $want is missing in $CACHE: run tools/kube/helm.sh version once" >&2; exit 1; }
  mkdir -p "$CACHE"
  C=helm.sh/helm/v3/pkg/chartutil R=helm.sh/helm/v3/pkg/lint/rules minor=$(echo "$VERSION" | cut -d. -f2) # otherwise it assumes v1.20 for every cluster
  (cd "$here/../helm" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false nice -n 19 go build -trimpath -o "$CACHE/helm" -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$want \
    -X $C.k8sVersionMajor=1 -X $C.k8sVersionMinor=$minor -X $R.k8sVersionMajor=1 -X $R.k8sVersionMinor=$minor" helm.sh/helm/v3/cmd/helm) >&2
fi
[ "${CHECK-}" ] || exec "$CACHE/helm" "$@"
