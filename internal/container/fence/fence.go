// Package fence passes firewall rules to the kernel, from a short-lived container in the host's network. The
// worker's program runs it as a command, like package probe. It does not interpret the rules, which come from its
// caller.
//
// The kernel applies a batch completely or not at all. The package imports only the standard library.
package fence

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// Command is the name of the worker's command.
const Command = "fence"

// TablePrefix is the prefix of our tables' names. The bridge and the fleet follow it. Tables of missing bridges are
// removed.
const TablePrefix = "retake-"

// Done is the JSON output of Main.
type Done struct {
	Used        int      `json:"used"`                  // index of the batch that the kernel accepted, or -1
	Why         string   `json:"why,omitempty"`         // error of the first batch, if the kernel refused all of them
	Nameservers []string `json:"nameservers,omitempty"` // from this machine's resolv.conf
}

// Args returns the arguments that follow Command. Main tries the batches in order, until the kernel accepts one. A
// batch consists of netlink messages in wire format.
func Args(batches ...[]byte) (args []string) {
	for _, b := range batches {
		args = append(args, base64.StdEncoding.EncodeToString(b))
	}
	return args
}

// Main applies the rules, and prints Done. It returns 0 even if the kernel refused every batch.
func Main(args []string, stdout, stderr io.Writer) int {
	done := Done{Used: -1, Nameservers: nameservers("/etc/resolv.conf")}
	for i, text := range args {
		batch, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			err = send(batch)
		}
		if err == nil {
			done.Used, done.Why = i, ""
			break
		}
		if done.Why == "" { // report why the preferred batch failed
			done.Why = err.Error()
		}
	}
	if err := removeStale(TablePrefix); err != nil {
		fmt.Fprintln(stderr, "worker fence: tables of removed networks:", err)
	}
	if err := json.NewEncoder(stdout).Encode(done); err != nil {
		fmt.Fprintln(stderr, "worker fence:", err)
		return 2
	}
	return 0
}

// nameservers returns the name servers in a resolv.conf file, or nil if the file is unreadable.
func nameservers(file string) (all []string) {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "nameserver" {
			all = append(all, fields[1])
		}
	}
	return all
}

// answerLimit is the longest wait for the kernel, which normally answers at once.
const answerLimit = 10 * time.Second

// send sends a batch to the kernel's netfilter and reads the answers. If one message fails, the kernel undoes the
// whole batch.
func send(batch []byte) error {
	messages, err := syscall.ParseNetlinkMessage(batch)
	if err != nil || len(messages) == 0 {
		return fmt.Errorf("read a batch of netlink messages: %w", err)
	}
	fd, err := open()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.Sendto(fd, batch, 0, kernel()); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	awaited := 0
	for _, m := range messages {
		if m.Header.Flags&syscall.NLM_F_ACK != 0 {
			awaited++
		}
	}
	answer := make([]byte, 1<<16)
	for awaited > 0 {
		n, _, err := syscall.Recvfrom(fd, answer, 0)
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		said, err := syscall.ParseNetlinkMessage(answer[:n])
		if err != nil {
			return err
		}
		for _, m := range said {
			if m.Header.Type != syscall.NLMSG_ERROR || len(m.Data) < 4 {
				continue
			}
			if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
				return fmt.Errorf("nftables: %w", syscall.Errno(-code))
			}
			awaited--
		}
	}
	return nil
}

func kernel() *syscall.SockaddrNetlink { return &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK} }

// open opens a socket to the kernel's netfilter.
func open() (fd int, err error) {
	if fd, err = syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC,
		syscall.NETLINK_NETFILTER); err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	limit := syscall.NsecToTimeval(int64(answerLimit))
	if err := errors.Join(syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit),
		syscall.Bind(fd, kernel())); err != nil {
		return 0, errors.Join(err, syscall.Close(fd))
	}
	return fd, nil
}
