#!/usr/bin/env bash
# If a signal ends a command that rake runs, rake prints an empty status instead of the signal: "Command failed with
# status (): [...]". A command killed for lack of memory therefore looks like any other crash, and a search for 137 or
# "Killed" finds nothing.
#
# Seen with: rake 13.0.6 (Debian 13.0.6-3), ruby 3.1.2. Seen for SIGKILL and SIGTERM alike, exit code 1.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq ruby3.1 libruby3.1 rake=13.0.6-3 ruby-rubygems=3.3.15-2+deb12u1 rubygems-integration=1.18 libyaml-0-2
for package in *.deb; do dpkg-deb -x "$package" root; done
lib=$(dirname "$(find root -name 'libruby-3.1.so.3.1')")
rake=$(dirname "$(find root -path '*/lib/rake.rb' -o -path '*vendor_ruby/rake.rb' | head -1)")
cat >Rakefile <<'R'
task(:kill) { sh "kill -KILL $$" }
task(:term) { sh "kill -TERM $$" }
task(:exit) { sh "exit 3" }
R
run() { # TASK: prints rake's message about the task's command
  LD_LIBRARY_PATH="$work/$lib" RUBYLIB="$work/$rake:$work/root/usr/lib/ruby/vendor_ruby:$work/root/usr/lib/ruby/3.1.0:$work/$lib/ruby/3.1.0" \
    "$work/root/usr/bin/ruby3.1" --disable-gems -r rubygems -r rake -e 'Rake.application.run(ARGV)' "$1" 2>&1 || echo "exit code $?"
}
for task in kill term exit; do
  run "$task" >"$task.txt"
  grep -E 'Command failed|exit code' "$task.txt" | sed "s/^/$task: /"
done
grep -q 'Command failed with status ()' kill.txt
grep -q 'Command failed with status ()' term.txt
grep -q 'Command failed with status (3)' exit.txt
