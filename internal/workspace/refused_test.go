package workspace

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"retake/internal/gitwords"
)

// refuses makes the remote refuse every push with a reason and lines for people, like GitHub.
func refuses(t *testing.T, o origin, reason string, lines ...string) {
	t.Helper()
	sh(t, o.bare, "config", "receive.procReceiveRefs", "refs/heads/retake")
	script := "#!/usr/bin/env python3\n" + `import sys
def read():
    n = int(sys.stdin.buffer.read(4), 16)
    return None if n == 0 else sys.stdin.buffer.read(n - 4)
def write(s):
    b = s.encode(); sys.stdout.buffer.write(b"%04x" % (len(b) + 4) + b)
def flush():
    sys.stdout.buffer.write(b"0000"); sys.stdout.buffer.flush()
while read() is not None: pass
write("version=1\0"); flush()
refs = []
while (line := read()) is not None: refs.append(line.decode().split()[2])
` + fmt.Sprintf("sys.stderr.write(%q); sys.stderr.flush()\n", strings.Join(lines, "\n")+"\n") +
		fmt.Sprintf("for r in refs: write(\"ng \" + r + \" \" + %q)\n", reason) + "flush()\n"
	hook := put(t, o.bare, "hooks/proc-receive", script)
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedPushIsTheRemotesWord checks that a refused push is permanent only if the remote names a known rule.
func TestRefusedPushIsTheRemotesWord(t *testing.T) {
	t.Parallel()
	for reason, rule := range map[string]bool{
		"Internal Server Error": false,
		"failure":               false,
		"something new":         false,
		"cannot lock ref":       false,
		"push declined due to repository rule violations": true,
		"refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without " +
			"`workflows` permission": true,
		"refusing to allow a Personal Access Token to create or update workflow without `workflow` scope": true,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, map[string]string{"a.txt": "one\n"})
			w := open(t, Options{})
			put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
			refuses(t, o, reason)
			_, err := w.Deliver(t.Context(), request(o, nonceB))
			if errors.Is(err, ErrRefused) != rule || rule != (KindOf(err) == Permanent) {
				t.Errorf("got %s %v", KindOf(err), err)
			}
		})
	}
}

// TestRefusedPushKeepsItsHead: GitHub names the rule first, followed by more lines of details than an error keeps.
func TestRefusedPushKeepsItsHead(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	lines := []string{"error: GH013: Repository rule violations found for refs/heads/retake/7-a1.", ""}
	for n := range 30 {
		lines = append(lines, fmt.Sprintf("  detail %d", n), "")
	}
	refuses(t, o, "push declined due to repository rule violations", lines...)
	_, err := w.Deliver(t.Context(), request(o, nonceB))
	wantKind(t, err, Permanent, "GH013", "detail 29", "push declined")
}

// TestRefusedName checks git 2.39's messages for a directory GIT~1, with receive.fsckObjects on the server.
func TestRefusedName(t *testing.T) {
	t.Parallel()
	err := gitFailed("push", "remote: error: object 58a1a2b: hasDotgit: contains '.git'\n"+
		"remote: fatal: fsck error in packed object\n"+
		"error: remote unpack failed: index-pack abnormal exit\n"+
		"! abc:refs/heads/retake/7-a1 [remote rejected] (unpacker error)", true, errors.New("exit status 1"))
	if wantKind(t, err, Permanent); !errors.Is(err, ErrRefused) || err.Next != nextName {
		t.Errorf("%+v", err)
	}
}

// TestGitWordsAreRead reads every example in the table that the classifier also uses.
func TestGitWordsAreRead(t *testing.T) {
	t.Parallel()
	for _, row := range gitwords.Rows {
		for _, said := range row.Examples {
			err := gitFailed("fetch", said, false, errors.New("exit status 128"))
			retried := row.Reason == "network_transient" || row.Reason == "rate_limited"
			if err.Words != row.Meaning || retried != (err.Kind == Transient || err.Kind == Limited) {
				t.Errorf("%q is %s %s, want %s", said, err.Kind, err.Words, row.Meaning)
			}
		}
	}
}

// TestUnknownWordsClaimNoDamage: an unknown message does not count as damage, and makes a failed push transient.
func TestUnknownWordsClaimNoDamage(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"fatal: the moon is in the wrong phase", ""} {
		for push, want := range map[bool]Kind{false: Permanent, true: Transient} {
			err := gitFailed("x", said, push, errors.New("exit status 128"))
			if err.Kind != want || err.Words != gitwords.Unknown || errors.Is(err, ErrDamaged) {
				t.Errorf("%q, push %v: %s %s %v", said, push, err.Kind, err.Words, err.Err)
			}
		}
	}
}
