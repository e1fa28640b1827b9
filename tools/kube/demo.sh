#!/bin/bash
# demo.sh ARGUMENTS OF bin/demo...: runs the demo on a throwaway cluster with a real node, with the programs in bin/
# (make build). If the cluster's binary (build.sh) is missing, the script prints a message, and fails only with
# RETAKE_REQUIRE_KUBE=1.
set -euo pipefail
. "$(dirname "$0")/env.sh"
bin=$(cd "$here/../.." && pwd)/bin
if ! CHECK=1 "$here/build.sh" > /dev/null; then
  echo "skipped the demo on a real Kubernetes: run make kube-build once to build it"; [ "${RETAKE_REQUIRE_KUBE-}" != 1 ]; exit
fi
"$here/images.sh" > /dev/null
own=$(mktemp -d /tmp/retake-kube-demo-XXXXXX); trap 'rm -rf "$own"' EXIT
cp "$IMG/pause.tar" "$own"
"$here/image.sh" retake.test/demo:1 "$own/demo.tar" "$bin/worker" "$bin/demo-agent"
export KT=$(mktemp -d /tmp/retake-kube-XXXXXX)
IMG=$own OWNER=$$ LIFE=1800 FAST=1 "$here/up.sh" node
trap '"$here/down.sh"; rm -rf "$own"' EXIT
"$here/run.sh" "$bin/demo" --runtime kubernetes "$@"
