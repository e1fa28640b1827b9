#!/bin/sh
# Builds the images for docker-compose.yml, from static binaries: make images.
#
# Environment:
#   BASE_IMAGE  image with git and CA certificates for director and githubsim. Unset: retake-base:local, built from
#               Debian packages if it does not exist. With access to a registry: BASE_IMAGE=buildpack-deps:bookworm-scm
#   IMAGE_TAG   tag of the images (default: local)
#   GO          the go program (default: go)
set -eu
cd "$(dirname "$0")/.."

tag=${IMAGE_TAG:-local}
go=${GO:-go}
if [ -z "${BASE_IMAGE:-}" ]; then
	BASE_IMAGE=retake-base:local
	deploy/base-image.sh "$BASE_IMAGE"
fi

# Send the engine only the files that an image needs, with fixed times, so that unchanged files keep their cached
# layers.
context=$(mktemp -d)
log=$(mktemp)
trap 'rm -rf "$context" "$log"' EXIT
trap 'exit 130' INT TERM

build() { # NAME PACKAGE
	echo "building $1"
	CGO_ENABLED=0 GOOS=linux "$go" build -trimpath -ldflags '-s -w' -o "$context/$1" "$2"
}
build director ./cmd/director
build worker ./cmd/worker
build githubsim ./cmd/githubsim
build demo-agent ./internal/demo/agent
build nats-server github.com/nats-io/nats-server/v2

# The demo's repository. Each file starts with a line "-- path --".
awk -v root="$context/seed/" '
	/^-- .* --$/ {
		if (file) close(file)
		file = root substr($0, 4, length($0) - 6)
		folder = file; sub("/[^/]*$", "", folder)
		system("mkdir -p \"" folder "\"")
		next
	}
	file { print > file }
' internal/demo/widgets.txtar
find "$context" -exec touch -h -d 2026-01-01T00:00:00Z {} +

image() { # DOCKERFILE IMAGE
	if ! docker build --build-arg "BASE_IMAGE=$BASE_IMAGE" -f "deploy/$1.Dockerfile" -t "$2:$tag" "$context" >"$log" 2>&1; then
		cat "$log" >&2
		exit 1
	fi
	echo "built image $2:$tag"
}
image director retake-director
image githubsim retake-githubsim
image demo-worker retake-demo-worker
image nats retake-nats

docker image inspect "${NATS_IMAGE:-nats:2}" >/dev/null 2>&1 ||
	echo "image ${NATS_IMAGE:-nats:2} is missing here: let compose pull it, or set NATS_IMAGE=retake-nats:$tag"
