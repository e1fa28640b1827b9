package kubernetes

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"retake/internal/container/containertest"
)

// box is a container of the fake. The test program turns itself into the container, in separate namespaces.
type box struct {
	Root  string
	Binds []bind
	Argv  []string
	Dir   string
	UID   int // unchanged if 0
}

type bind struct {
	From, At string
	ReadOnly bool
}

const boxVariable = "RETAKE_TEST_BOX"

var probe string // path of the suite's program

func TestMain(m *testing.M) {
	if order := os.Getenv(boxVariable); order != "" {
		fmt.Fprintln(os.Stderr, "box:", enterBox(order))
		os.Exit(125)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests mostly wait for other processes, not for a processor
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "retake-kubernetes-")
	if err == nil {
		defer os.RemoveAll(dir)
		probe, err = containertest.BuildProbe(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// enterBox turns this process into the container that order describes. It returns only after an error.
func enterBox(order string) error {
	runtime.LockOSThread()
	var b box
	if err := json.Unmarshal([]byte(order), &b); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	for _, m := range b.Binds {
		at := filepath.Join(b.Root, m.At)
		if err := point(m.From, at); err != nil { // at may be inside an earlier mount
			return err
		}
		if err := unix.Mount(m.From, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s at %s: %w", m.From, at, err)
		}
		if m.ReadOnly {
			if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				return fmt.Errorf("%s read-only: %w", at, err)
			}
		}
	}
	if err := unix.Mount("proc", filepath.Join(b.Root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	err := errors.Join(unix.Chroot(b.Root), unix.Chdir(b.Dir))
	if b.UID != 0 && err == nil {
		err = errors.Join(unix.Setgroups(nil), unix.Setresgid(b.UID, b.UID, b.UID), unix.Setresuid(b.UID, b.UID, b.UID))
	}
	if err == nil {
		err = unix.Exec(b.Argv[0], b.Argv, []string{"PATH=/", "HOSTNAME=pod"})
	}
	return err
}

// needBoxes skips a test if this user cannot create namespaces.
func needBoxes(t *testing.T) {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-test.run=^$")
	c.SysProcAttr = namespaces()
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("the fake runs pods in namespaces, which this user may not create: %v %s", err, out)
	}
}

func namespaces() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return a
}

// run starts a container of a pod.
func (f *fake) run(p *corev1.Pod, c *corev1.Container, dir string) *played {
	q := &played{ended: make(chan struct{}), last: filepath.Join(dir, "last-"+c.Name), exit: 125}
	root := filepath.Join(dir, "root-"+c.Name)
	b := box{Root: root, Argv: expanded(c.Command), Dir: "/" + strings.TrimPrefix(c.WorkingDir, "/")}
	if os.Geteuid() == 0 {
		b.UID = int(*p.Spec.SecurityContext.RunAsUser)
	}
	if b.Argv[0] == "worker" { // as found in the image's PATH
		b.Argv[0] = "/worker"
	}
	err := errors.Join(os.WriteFile(q.last, nil, 0o666), os.Chmod(q.last, 0o666),
		os.MkdirAll(filepath.Join(root, "proc"), 0o755))
	b.Binds = append([]bind{
		{From: probe, At: "/worker", ReadOnly: true},
		{From: "/dev/null", At: "/dev/null"},
		{From: q.last, At: "/dev/termination-log"},
	}, mountsOf(c, dir)...)
	order, marshalErr := json.Marshal(b)
	if err = errors.Join(err, marshalErr); err != nil {
		f.t.Error(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Error(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = []string{boxVariable + "=" + string(order)}, w, w, namespaces()
	started := make(chan error)
	f.work.Go(func() {
		runtime.LockOSThread() // the kernel kills the child when this thread ends (Pdeathsig)
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		w.Close()
		if err == nil {
			_ = cmd.Wait()
			s := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if q.exit = s.ExitStatus(); s.Signaled() {
				q.exit = 128 + int(s.Signal())
			}
		}
		close(q.ended)
	})
	if err := <-started; err != nil {
		f.t.Errorf("start %s: %v", b.Argv, err)
	} else {
		q.pid = cmd.Process.Pid
	}
	f.work.Go(func() { q.read(r) })
	return q
}

// expanded returns a command with "$$" replaced by "$", as the kubelet does.
func expanded(argv []string) (out []string) {
	for _, a := range argv {
		out = append(out, strings.ReplaceAll(a, "$$", "$"))
	}
	return out
}

func mountsOf(c *corev1.Container, dir string) (all []bind) {
	for _, m := range c.VolumeMounts {
		all = append(all, bind{filepath.Join(volumeDir(dir, m.Name), m.SubPath), m.MountPath, m.ReadOnly})
	}
	return all
}

// point creates a mount point.
func point(from, at string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o600))
}

func (q *played) read(r *os.File) {
	defer r.Close()
	for b := bufio.NewReader(r); ; {
		text, err := b.ReadString('\n')
		q.mu.Lock()
		if text != "" {
			q.lines = append(q.lines, line{time.Now(), text})
		}
		q.closed = err != nil
		q.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// allFiles returns the content of all files in a directory, except programs.
func allFiles(t testing.TB, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "worker" {
			return err
		}
		data, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(data) + "\n")
		return err
	})
	if err != nil || all.Len() > 0 && !strings.Contains(all.String(), dir) {
		t.Fatal(err)
	}
	return all.String()
}
