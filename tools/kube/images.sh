#!/bin/bash
# images.sh: builds the node's images: the pause image, and the test image retake.test/probe:1, which contains the
# conformance suite's program, also as "worker" for the init container. It also unpacks Debian's CNI plugins into the
# cache, without installing a package.
set -euo pipefail
. "$(dirname "$0")/env.sh"
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
mkdir -p "$IMG" "$CACHE/bin"
(cd "$here" && go build -trimpath -ldflags '-s -w' -o "$CACHE/bin/pause" ./pause)
(cd "$here/../.." && go build -trimpath -ldflags '-s -w' -o "$CACHE/bin/probe" ./internal/container/containertest/probe)
cp "$CACHE/bin/probe" "$CACHE/bin/worker"
"$here/image.sh" retake.test/pause:1 "$IMG/pause.tar" "$CACHE/bin/pause"
"$here/image.sh" retake.test/probe:1 "$IMG/probe.tar" "$CACHE/bin/probe" "$CACHE/bin/worker"
if [ ! -x "$CNIBIN/ptp" ]; then
  mkdir -p "$CACHE/cni"; t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
  (cd "$t" && apt-get download -q containernetworking-plugins > /dev/null); dpkg -x "$t"/containernetworking-plugins_*.deb "$CACHE/cni"
fi
ls -la "$IMG"/*.tar
