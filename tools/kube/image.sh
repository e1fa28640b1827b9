#!/bin/bash
# image.sh NAME:TAG OUT.tar FILE...: writes an archive for node.sh to import, with an image of static programs in /,
# which is its PATH. The first program is the entrypoint. The script does not need an engine, and the same programs give
# the same bytes.
set -euo pipefail
name=$1 out=$2; shift 2
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT; mkdir -p "$t/l/tmp"; chmod 1777 "$t/l/tmp"
for f in "$@"; do install -m 755 "$f" "$t/l/$(basename "$f")"; done
tar -C "$t/l" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$t/layer.tar" .
d=$(sha256sum "$t/layer.tar" | cut -d' ' -f1)
arch=$(go env GOARCH)
printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Entrypoint":["/%s"],"Env":["PATH=/"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$arch" "$(basename "$1")" "$d" > "$t/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" > "$t/manifest.json"
tar -C "$t" --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$out" manifest.json config.json layer.tar
