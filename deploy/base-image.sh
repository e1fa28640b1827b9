#!/bin/sh
# Builds a base image with git and CA certificates from Debian packages, for machines that cannot pull images. It does
# nothing if the image exists. It needs root, debootstrap and a Debian mirror.
#
#   deploy/base-image.sh [IMAGE]      default: retake-base:local
#
# Environment: DEBIAN_SUITE (bookworm), DEBIAN_MIRROR (http://deb.debian.org/debian).
set -eu

image=${1:-retake-base:local}
suite=${DEBIAN_SUITE:-bookworm}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

if docker image inspect "$image" >/dev/null 2>&1; then
	echo "$image already exists"
	exit 0
fi
fail() {
	echo "base-image: $1" >&2
	echo "base-image: alternatively, use an existing image with git and CA certificates: BASE_IMAGE=buildpack-deps:bookworm-scm make images" >&2
	exit 2
}
[ "$(id -u)" = 0 ] || fail "debootstrap needs root: run this with sudo"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "building $image: Debian $suite with git and CA certificates, from $mirror (about a minute)"
if ! debootstrap --variant=minbase --include=git,ca-certificates "$suite" "$work/root" "$mirror" >"$work/log" 2>&1; then
	tail -n 20 "$work/log" >&2
	fail "debootstrap failed: is $mirror reachable?"
fi
# Remove files that only package management and manuals need.
rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/doc/* "$work"/root/usr/share/man/* \
	"$work"/root/usr/share/locale/* "$work"/root/var/log/*
tar -C "$work/root" --numeric-owner --exclude='./dev/*' -c . |
	docker import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' --message "Debian $suite with git" - "$image" >/dev/null
echo "built $image"
