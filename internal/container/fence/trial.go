package fence

import (
	"bufio"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

// TrialLimit is the maximum duration of a trial. It also ends a listener that its director has abandoned.
const TrialLimit = time.Minute

// answerAfter is the delay between a trial's connect and its check of the result. The kernels on both sides complete a
// connection without any process, so even a busy machine needs only milliseconds.
const answerAfter = 500 * time.Millisecond

// Answer is the result of a trial for one address.
type Answer struct {
	Reached bool   `json:"reached"`          // the address answered, even if it refused the connection
	Why     string `json:"why,omitempty"`    // why it was not reached
	Absent  bool   `json:"absent,omitempty"` // the address does not exist on the network, which invalidates the trial
}

// missing returns the task's bridge or table if it does not exist, or "".
func (t Task) missing() string {
	if t.Bridge != "" {
		if _, err := net.InterfaceByName(t.Bridge); err != nil {
			return "interface " + t.Bridge
		}
	}
	if t.Table != "" && !hasTable(t.Table) {
		return "table " + t.Table
	}
	return ""
}

// Families of tables, from include/uapi/linux/netfilter.h.
const familyInet, familyBridge = 1, 7

// hasTable reports whether the kernel has the table in both families of our rules.
func hasTable(name string) bool {
	all, err := tables()
	found := map[byte]bool{}
	for _, t := range all {
		if t.name == name {
			found[t.family] = true
		}
	}
	return err == nil && found[familyInet] && found[familyBridge]
}

// dial connects to addresses concurrently, without sending data.
func dial(addresses []string) map[string]Answer {
	pending, answers := map[string]int{}, map[string]Answer{}
	for _, a := range addresses {
		if fd, err := begin(a); err == nil {
			pending[a] = fd
		} else {
			answers[a] = answerOf(err)
		}
	}
	if len(pending) > 0 {
		time.Sleep(answerAfter)
	}
	silent := silentNeighbours("/proc/net/arp")
	for a, fd := range pending {
		answers[a] = answerOf(result(fd))
		_ = syscall.Close(fd)
		if host, _, err := net.SplitHostPort(a); err == nil && silent[host] {
			answers[a] = Answer{Why: "no machine has this address", Absent: true}
		}
	}
	return answers
}

// begin starts a connection. It does not wait for completion, because a timer in this process could expire before the
// process sees a connection that the kernel has completed.
func begin(address string) (fd int, err error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, err
	}
	family := syscall.AF_INET6
	var to syscall.Sockaddr = &syscall.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if a := at.Addr().Unmap(); a.Is4() {
		family, to = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: a.As4()}
	}
	fd, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := syscall.Connect(fd, to); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		return 0, errors.Join(err, syscall.Close(fd))
	}
	return fd, nil
}

var errSilent = errors.New("fence: address did not answer")

// result returns the error of a connection, or nil if it is complete.
func result(fd int) error {
	if _, err := syscall.Getpeername(fd); err == nil {
		return nil
	}
	code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	switch {
	case err != nil:
		return err
	case code == 0:
		return errSilent
	}
	return syscall.Errno(code)
}

// answerOf interprets a connection's error. Only errors from rejected or lost packets prove that the rules work.
func answerOf(err error) Answer {
	switch {
	case err == nil:
		return Answer{Reached: true}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return Answer{Reached: true, Why: err.Error()}
	case errors.Is(err, errSilent), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES),
		errors.Is(err, syscall.ETIMEDOUT):
		return Answer{Why: err.Error()}
	}
	return Answer{Why: err.Error(), Absent: true}
}

// silentNeighbours returns the addresses that did not answer ARP, which the rules always permit. If the file does not
// exist, as with some runtimes, it returns nil.
func silentNeighbours(file string) map[string]bool {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	silent := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// The first fields are the address, the hardware type and the flags. A resolved address has flag 2.
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[2] == "0x0" {
			silent[fields[0]] = true
		}
	}
	return silent
}
