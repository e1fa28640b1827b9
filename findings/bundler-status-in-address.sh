#!/usr/bin/env bash
# Bundler looks for the digits 401 and 403 in the message of a failed download, and the message contains the address of
# the gem server. If the server's port (or its path) contains these digits, Bundler reports a server that answers 502 as
# one that requires authentication.
#
# Seen with: bundler 2.3.15 (Debian 2.3.15-2+deb12u1), ruby 3.1.2, rubygems 3.3.15.
# Seen: "Authentication is required for http://127.0.0.1:18401/" and the advice to store a password, and from the same
#       server at port 18410: "Could not fetch specs from http://127.0.0.1:18410/ due to underlying error <bad response
#       Bad Gateway 502 …>".
# Therefore, a message about credentials does not prove that a server asked for them.
set -euo pipefail
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir home
apt-get download -qq ruby3.1 libruby3.1 ruby-bundler=2.3.15-2+deb12u1 ruby-rubygems=3.3.15-2+deb12u1 \
  rubygems-integration=1.18 libyaml-0-2
for package in *.deb; do dpkg-deb -x "$package" root; done
lib=$(dirname "$(find root -name 'libruby-3.1.so.3.1')")
vendor=root/usr/lib/ruby/vendor_ruby
stdlib=root/usr/lib/ruby/3.1.0
native=$lib/ruby/3.1.0
bundler=$(dirname "$(find root -path '*bundler-2.3.15/lib/bundler.rb')")
cat >server.py <<'P'
import http.server, sys
class Away(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(502)
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Away).serve_forever()
P
asked() { # PORT: prints Bundler's message about the server at this port
  mkdir -p "app$1"
  printf 'source "http://127.0.0.1:%s/"\ngem "rake"\n' "$1" >"app$1/Gemfile"
  (cd "app$1" && HOME="$work/home" BUNDLE_RETRY=0 LD_LIBRARY_PATH="$work/$lib" \
    RUBYLIB="$work/$bundler:$work/$vendor:$work/$stdlib:$work/$native" \
    "$work/root/usr/bin/ruby3.1" --disable-gems -r rubygems -r bundler -e \
    'require "bundler/cli"; require "bundler/friendly_errors"; Bundler.with_friendly_errors { Bundler::CLI.start(["install"]) }' 2>&1) || true
}
for port in 18401 18410; do
  python3 server.py "$port" &
  servers+=($!)
done
sleep 1
with=$(asked 18401)
without=$(asked 18410)
echo "port 18401: $(tail -n 3 <<<"$with")"
echo "port 18410: $(tail -n 3 <<<"$without")"
grep -q 'Authentication is required' <<<"$with"
! grep -q 'Authentication is required' <<<"$without"
grep -q 502 <<<"$without"
