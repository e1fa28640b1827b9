#!/bin/sh
# Opens one of the demo's issues, with the task label, on the fake GitHub's page. With --print, the script only
# prints the text of the issue.
#
#   deploy/demo-issue.sh NUMBER [--print]       1: succeeds; 2: does not compile; 7: runs until its container is killed
#
# Environment: GITHUBSIM_PORT (default: 8900), as in .env.
set -eu
cd "$(dirname "$0")/.."

text=$(awk -v wanted="-- ${1:-} --" '/^-- [0-9]+ --$/ { on = ($0 == wanted); next } on' internal/demo/issues.txtar)
case $text in
*_test.go*) ;;
*)
	echo "demo-issue: want the number of an issue that has an acceptance test, e.g. 1, 2 or 7" >&2
	exit 2
	;;
esac
if [ "${2:-}" = --print ]; then
	printf '%s\n' "$text"
	exit 0
fi
page=http://127.0.0.1:${GITHUBSIM_PORT:-8900}/demo/widgets/issues
at=$(printf '%s\n' "$text" | tail -n +3 | curl -sS -f -o /dev/null -w '%{redirect_url}' --data-urlencode "title=$(printf '%s\n' "$text" | head -n 1)" \
	--data-urlencode body@- --data-urlencode label=agent-task "$page") || {
	echo "demo-issue: cannot open the issue at $page; start the demo: docker-compose --profile demo up -d" >&2
	exit 2
}
echo "opened $at"
