package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// privileges tries operations that need privileges.
func privileges([]string) (string, error) {
	var out strings.Builder
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		want := map[string]string{
			"CapEff": "0000000000000000", "CapBnd": "0000000000000000",
			"CapPrm": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
		}[name]
		if want != "" && value != want {
			fmt.Fprintf(&out, "through: %s is %s\n", name, value)
		}
	}
	null, _ := syscall.BytePtrFromString("/")
	for _, c := range []struct {
		name string
		err  error
	}{
		{"mount", syscall.Mount("none", "/tmp", "tmpfs", 0, "")},
		{"remount", syscall.Mount("/readonly", "/readonly", "", syscall.MS_REMOUNT|syscall.MS_BIND, "")},
		{"unshare user", syscall.Unshare(syscall.CLONE_NEWUSER)},
		{"unshare mount", syscall.Unshare(syscall.CLONE_NEWNS)},
		{"chroot", syscall.Chroot("/tmp")},
		{"mknod", syscall.Mknod("/tmp/disk", syscall.S_IFBLK|0o600, 8<<8)},
		{"setuid", syscall.Setuid(0)},
		{"sethostname", syscall.Sethostname([]byte("x"))},
		{"settimeofday", syscall.Settimeofday(&syscall.Timeval{})},
		{"reboot", syscall.Reboot(0)},
		{"bpf", call(321, 0)},
		{"add_key", call(248, uintptr(unsafe.Pointer(null)))},
		{"init_module", call(175, 0)},
		{"open_by_handle_at", call(304, 0)},
		{"userfaultfd", call(323, 0)},
		{"io_uring_setup", call(425, 1)},
		{"core_pattern", os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/tmp/x"), 0)},
		{"sysrq", os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0)},
		{"cgroup", os.WriteFile("/sys/fs/cgroup/cgroup.procs", []byte("1"), 0)},
		{"release_agent", os.WriteFile("/sys/fs/cgroup/memory/release_agent", []byte("/tmp/x"), 0)},
		{"oom_score_adj", os.WriteFile("/proc/1/oom_score_adj", []byte("-1000"), 0)},
		{"kmsg", open("/dev/kmsg")},
		{"mem", open("/dev/mem")},
		{"disk", open("/dev/vda")},
		{"passwd", os.WriteFile("/etc/passwd", []byte("x::0:0::/:/x"), 0o644)},
		{"worker binary", os.WriteFile("/retake/worker", []byte("x"), 0o755)},
		{"raw socket", rawSocket()},
	} {
		if c.err == nil {
			fmt.Fprintf(&out, "through: %s\n", c.name)
		}
	}
	return out.String(), nil
}

// call returns the error of a refused system call. It returns nil if the call succeeded or only its arguments were bad.
func call(n, a uintptr) error {
	switch _, _, e := syscall.Syscall(n, a, 0, 0); e {
	case 0, syscall.EFAULT, syscall.EINVAL:
		return nil
	default:
		return e
	}
}

func open(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
	}
	return err
}

func rawSocket() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	if err == nil {
		_ = syscall.Close(fd)
	}
	return err
}

// sockets searches for sockets of container engines, and for abstract sockets.
func sockets([]string) (string, error) {
	var out strings.Builder
	paths := []string{
		"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
		"/run/podman/podman.sock", "/run/systemd/private", "/run/dbus/system_bus_socket",
	}
	list, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@") {
			paths = append(paths, f[7])
		}
	}
	for _, p := range paths {
		if c, err := net.Dial("unix", p); err == nil {
			_ = c.Close()
			fmt.Fprintf(&out, "through: %s\n", p)
		}
	}
	return out.String() + fmt.Sprintf("%d sockets tried", len(paths)), nil
}
