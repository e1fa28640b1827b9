#!/bin/sh
# Fetches and builds the agent CLIs in agents.tsv, each pinned to a commit, into RETAKE_AGENTS_DIR (default:
# ~/.cache/retake/agents), outside this repository: <profile>/<program> and <profile>/VERSION. Existing builds of the
# right version are kept. Needs git, Go and network access, but not an account. To use a mirror, configure git:
# git config url.<mirror>.insteadOf <repository>.
#
#   install.sh [PROFILE...]
set -eu
table=$(cd "$(dirname "$0")" && pwd)/agents.tsv
into=${RETAKE_AGENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/retake/agents}
src=$into/src
tab=$(printf '\t')
mkdir -p "$src"

fetch() { # REPOSITORY COMMIT FOLDER
	[ -d "$3/.git" ] || git clone -q --no-checkout "$1" "$3"
	git -C "$3" cat-file -e "$2^{commit}" 2>/dev/null || git -C "$3" fetch -q --tags origin
	git -C "$3" checkout -q -f "$2"
}

# -modfile leaves the agent's go.mod unchanged.
build() { # NAME PACKAGE OUTPUT MODFILE
	(cd "$src/$1" && CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod go build -buildvcs=false -trimpath -ldflags '-s -w' -modfile="$4" -o "$3" "$2")
}

failed=0
while IFS=$tab read -r name program repository tag commit package sources; do
	case $name in '' | '#'*) continue ;; esac
	case " $* " in '  ' | *" $name "*) ;; *) continue ;; esac
	out=$into/$name/$program
	version="$tag (${commit%"${commit#????????????}"})"
	if [ -x "$out" ] && [ "$(cat "$into/$name/VERSION" 2>/dev/null)" = "$version" ]; then
		echo "$name $version exists: $out"
		continue
	fi
	echo "$name $version: fetching $repository"
	if ! fetch "$repository" "$commit" "$src/$name"; then
		echo "$name: cannot fetch its source" >&2
		failed=1
		continue
	fi
	mod=$src/$name.mod
	cp "$src/$name/go.mod" "$mod"
	cp "$src/$name/go.sum" "$src/$name.sum"
	if ! (cd "$src/$name" && GOFLAGS=-mod=mod go mod download -modfile="$mod" 2>"$src/$name.log"); then
		echo "$name: $(tail -n 1 "$src/$name.log" | tr -d '\t'); fetching the sources of such modules"
		for s in $(echo "$sources" | tr ',' ' '); do
			module=${s%%=*}
			at=${s#*=}
			repo=${at%@*}
			ref=${at##*@}
			folder=
			case $ref in */*) folder=/${ref#*/} ref=${ref%%/*} ;; esac
			fetch "$repo" "$ref" "$src/$(basename "$repo")-module"
			go mod edit -replace "$module=$src/$(basename "$repo")-module$folder" "$mod"
		done
	fi
	mkdir -p "$into/$name"
	echo "$name: building (a few minutes)"
	if build "$name" "$package" "$out" "$mod"; then
		echo "$version" >"$into/$name/VERSION"
		echo "$name $version: $out"
	else
		echo "$name: cannot build it here" >&2
		failed=1
	fi
done <"$table"
exit $failed
