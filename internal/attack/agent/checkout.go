package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// onCheckout lists attacks on the current directory, which is the checkout.
var onCheckout = map[string]func(args []string) (string, error){
	"sparse":  sparse,
	"fill":    fill,
	"many":    many,
	"nested":  nested,
	"links":   links,
	"special": special,
	"names":   names,
	"times":   times,
	"modes":   modes,
	"git":     git,
	"lfs":     lfs,
	"globs":   globs,
	"swap":    swap,
	"grow":    grow,
	"write":   write,
}

func count(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// write PATH TEXT writes a file.
func write(args []string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil {
		return "", err
	}
	return "", os.WriteFile(args[0], []byte(args[1]), 0o644)
}

// sparse BYTES makes a sparse file without data.
func sparse(args []string) (string, error) {
	f, err := os.Create("sparse.bin")
	if err == nil {
		err = errors.Join(f.Truncate(count(args[0])), f.Close())
	}
	return "", err
}

// fill BYTES writes a file of this size, or stops when the disk is full.
func fill(args []string) (string, error) {
	dir := "."
	if len(args) > 1 {
		dir = args[1]
	}
	f, err := os.Create(filepath.Join(dir, "fill.bin"))
	if err != nil {
		return "", err
	}
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	var n int64
	end := "done"
	for n < count(args[0]) {
		w, err := f.Write(block)
		n += int64(w)
		if err != nil {
			end = err.Error()
			break
		}
	}
	return fmt.Sprintf("wrote %d MB: %s", n>>20, end), f.Close()
}

// many FILES DEPTH makes FILES empty files in one directory, nested in DEPTH directories with 250-character names.
func many(args []string) (string, error) {
	back, err := os.Open(".")
	if err != nil {
		return "", err
	}
	for range count(args[1]) {
		dir := strings.Repeat("d", 250)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chdir(dir)); err != nil {
			return "", err
		}
	}
	for i := range count(args[0]) {
		fd, err := syscall.Open("f"+strconv.FormatInt(i, 10), syscall.O_CREAT|syscall.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Sprintf("%d files", i), err
		}
		_ = syscall.Close(fd)
	}
	return "", back.Chdir()
}

// nested DIRECTORIES makes that many directories, each inside the previous one.
func nested(args []string) (string, error) {
	for i := range count(args[0]) {
		if err := errors.Join(syscall.Mkdir("d", 0o755), syscall.Chdir("d")); err != nil {
			return fmt.Sprintf("%d folders", i), err
		}
	}
	return "", os.WriteFile("bottom", nil, 0o644)
}

// links SECRET makes links that lead out of the tree, some of them to the file SECRET.
func links(args []string) (string, error) {
	secret := args[0]
	err := os.RemoveAll(".retake")
	for name, to := range map[string]string{
		"secret": secret, "etc": "/etc", "up": "../../..", "self": "/proc/self/environ", "root": "/", "loop": "loop",
		".retake": "/etc", "deep/.retake": secret,
		".gitignore": secret, ".gitmodules": "/etc/passwd",
	} {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(to, name))
	}
	hard := os.Link(secret, "hard")
	return fmt.Sprintf("hard link: %v", hard), err
}

// special makes special files, which block their readers.
func special([]string) (string, error) {
	err := errors.Join(syscall.Mkfifo("fifo", 0o644), syscall.Mkfifo(".gitattributes", 0o644),
		syscall.Mkfifo("README.fifo", 0o644))
	_ = os.MkdirAll(".retake", 0o755)
	for _, name := range []string{
		"attempt.json", "STATE.json", "question.md", "sync_required.json", "last_failure.txt",
		"prompt.md",
	} {
		_ = os.RemoveAll(filepath.Join(".retake", name))
		err = errors.Join(err, syscall.Mkfifo(filepath.Join(".retake", name), 0o644))
	}
	fd, sockets := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if sockets == nil {
		sockets = syscall.Bind(fd, &syscall.SockaddrUnix{Name: "socket"})
	}
	return "", errors.Join(err, sockets)
}

// names makes files with special names.
func names([]string) (string, error) {
	var err error
	for _, name := range []string{
		"-rf", "--exec=id", "new\nline", "\x1b]0;x\x07", "tab\there", "\xff\xfe", "quote\"'`$(id)", "@octocat",
		"<img src=x>", "a b", "CON", "Case", "case", "*", "?", ":(top)x", "[a]", "\u202etxt.exe",
		".GIT/config", ".git./x", "git~1/x", ".g\u200cit/hooks/x", "x/.GiT/hooks/post-checkout",
		strings.Repeat("n", 255),
	} {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("x"), 0o644))
	}
	return "", err
}

// times sets impossible file times.
func times([]string) (string, error) {
	var err error
	for name, seconds := range map[string]int64{
		"far": 292277026596, "max": 1<<63 - 1, "min": -1 << 63,
		"old": -2208988800, "wide": 1 << 40,
	} {
		if err = os.WriteFile(name, []byte("x"), 0o644); err != nil {
			return "", err
		}
		ts := [2]syscall.Timespec{{Sec: seconds}, {Sec: seconds}}
		if e := syscall.UtimesNano(name, ts[:]); e != nil { // the system rejects this time, so use a valid one
			_ = os.Chtimes(name, time.Unix(1<<32, 0), time.Unix(1<<32, 0))
		}
	}
	return "", err
}

// modes makes files with the setuid, setgid and sticky bits, and files and directories without permissions. It also
// sets extended attributes.
func modes([]string) (string, error) {
	var err error
	for name, mode := range map[string]uint32{
		"setuid": 0o4755, "setgid": 0o2755, "sticky": 0o1777, "closed": 0,
		"writeonly": 0o222,
	} {
		err = errors.Join(err, os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755), syscall.Chmod(name, mode))
	}
	err = errors.Join(err, os.MkdirAll("shut/in", 0o755), os.WriteFile("shut/in/file", []byte("x"), 0o644),
		syscall.Chmod("shut/in", 0), syscall.Chmod("shut", 0))
	value := make([]byte, 2000)
	var attributes []string
	for _, name := range []string{"user.x", "security.capability", "system.posix_acl_access", "trusted.x"} {
		attributes = append(attributes, fmt.Sprintf("%s: %v", name, setxattr("setuid", name, value)))
	}
	return strings.Join(attributes, ", "), err
}

func setxattr(path, name string, value []byte) error {
	p, _ := syscall.BytePtrFromString(path)
	n, _ := syscall.BytePtrFromString(name)
	_, _, e := syscall.Syscall6(syscall.SYS_SETXATTR, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(n)),
		uintptr(unsafe.Pointer(&value[0])), uintptr(len(value)), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// git MARK configures programs that git would run for any user in this directory. Each program would write MARK.
func git(args []string) (string, error) {
	mark := args[0]
	run := "touch " + mark
	files := map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/heads/x": "",
		".git/config": "[core]\n\tfsmonitor = \"" + run + "; false\"\n\thooksPath = hooks\n\tsshCommand = " + run +
			"\n\tpager = " + run + "\n\teditor = " + run +
			"\n\tattributesFile = /etc/passwd\n\tworktree = /etc\n[filter \"x\"]\n\tclean = " + run + "\n\tsmudge = " +
			run + "\n\tprocess = " + run + "\n\trequired = true\n[diff \"x\"]\n\ttextconv = " + run +
			"\n\tcommand = " + run + "\n[merge \"x\"]\n\tdriver = " + run + "\n[gpg]\n\tprogram = " + run +
			"\n[commit]\n\tgpgSign = true\n[include]\n\tpath = /etc/passwd\n[credential]\n\thelper = !" + run + "\n",
		".gitattributes": "* filter=x diff=x merge=x text eol=crlf ident working-tree-encoding=UTF-16\n",
		".gitmodules": "[submodule \"x\"]\n\tpath = sub\n\turl = ext::sh -c \"" + run + "\"\n\tupdate = !" + run +
			"\n",
		"nested/.git/HEAD": "ref: refs/heads/main\n", "nested/.git/config": "[core]\n\tfsmonitor = " + run + "\n",
		"nested/file":  "x",
		"gitlink/.git": "gitdir: /etc\n", "gitlink/file": "x", "worktree/.git": "gitdir: " + filepath.Dir(mark) + "\n",
		"sub/.git": "gitdir: ../../git\n", "sub/file": "x",
		".gitconfig": "[core]\n\tfsmonitor = " + run + "\n",
	}
	for _, hook := range []string{
		"pre-commit", "post-checkout", "post-index-change", "pre-push",
		"reference-transaction", "post-commit", "commit-msg",
	} {
		files[".git/hooks/"+hook] = "#!/bin/sh\n" + run + "\n"
		files["hooks/"+hook] = "#!/bin/sh\n" + run + "\n"
	}
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o755)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// lfs MARK makes pointers to large files, with a filter that runs a program.
func lfs(args []string) (string, error) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("a", 64) +
		"\nsize 9223372036854775807\n"
	return "", errors.Join(
		os.WriteFile(".gitattributes", []byte("*.bin filter=lfs diff=lfs merge=lfs -text\n"), 0o644),
		os.WriteFile("model.bin", []byte(pointer), 0o644),
		os.WriteFile("bad.bin", []byte(strings.Replace(pointer, "oid sha256:", "oid sha256:../../", 1)), 0o644),
		os.WriteFile(".lfsconfig", []byte("[lfs]\n\turl = http://127.0.0.1:1/\n[lfs \"customtransfer.x\"]\n\tpath = "+
			"touch\n\targs = "+args[0]+"\n"), 0o644))
}

// globs writes .gitignore and .gitattributes with patterns that take a very long time to match.
func globs([]string) (string, error) {
	pattern := strings.Repeat("*a", 60) + "b\n" + strings.Repeat("**/", 60) + "b\n" + strings.Repeat("[!b]*", 60) + "\n"
	err := os.WriteFile(".gitignore", []byte(strings.Repeat(pattern, 200)), 0o644)
	err = errors.Join(err, os.WriteFile(".gitattributes",
		[]byte(strings.Repeat(strings.ReplaceAll(pattern, "\n", " text\n"), 200)), 0o644))
	for i := range 200 {
		err = errors.Join(err, os.WriteFile(strings.Repeat("a", 240)+strconv.Itoa(i), []byte("x"), 0o644))
	}
	return "", err
}

// swap SECONDS SECRET repeatedly replaces .retake and two files with links to SECRET, and restores them.
func swap(args []string) (string, error) {
	end, n := time.Now().Add(time.Duration(count(args[0]))*time.Second), 0
	secret := args[1]
	_ = os.MkdirAll("real", 0o755)
	_ = os.WriteFile("real/work.txt", []byte("work"), 0o644)
	for time.Now().Before(end) {
		for _, name := range []string{".retake", "work.txt", "real/work.txt"} {
			aside := name + ".aside"
			_ = os.Rename(name, aside)
			_ = os.Symlink(secret, name)
			_ = os.Remove(name)
			_ = os.Rename(aside, name)
			n++
		}
	}
	return fmt.Sprintf("%d swaps", n), nil
}

// grow SECONDS creates files and directories for that many seconds.
func grow(args []string) (string, error) {
	end, n := time.Now().Add(time.Duration(count(args[0]))*time.Second), 0
	for time.Now().Before(end) {
		dir := fmt.Sprintf("grown/%d", n%100)
		_ = os.MkdirAll(dir, 0o755)
		_ = os.WriteFile(fmt.Sprintf("%s/%d", dir, n), []byte("x"), 0o644) // another process may remove the directory
		if n++; n >= 100_000 {
			_ = os.RemoveAll("grown")
			n = 0
		}
	}
	return fmt.Sprintf("%d files", n), nil
}
