// Package fence passes firewall rules to the kernel from a short-lived container on the host's network, and tries them
// from containers on the workers' network. The worker's program runs it as a command, like package probe. It does not
// interpret the rules, which come from its caller.
//
// The kernel applies a batch completely or not at all. The package imports only the standard library.
package fence

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Command is the name of the worker's command.
const Command = "fence"

// TablePrefix is the prefix of our table names, followed by the bridge and the fleet. Tables of missing bridges are
// removed.
const TablePrefix = "retake-"

// Task lists the steps of Main in order.
type Task struct {
	Batches [][]byte // alternative batches of netlink messages in wire format, best first
	Bridge  string   // interface named in the rules, or empty
	Table   string   // table of the rules, which must exist in both families afterwards, or empty
	Listen  string   // HOST:PORT to listen on for a trial, for at most TrialLimit; or empty
	Renewal bool     // listen only if the table was missing before
	Dial    []string // addresses that a trial dials, ADDRESS:PORT
}

// Done is Main's JSON output, on one line.
type Done struct {
	Used        int               `json:"used"`                  // index of the accepted batch, or -1
	Why         string            `json:"why,omitempty"`         // error of the first batch, if all were refused
	Nameservers []string          `json:"nameservers,omitempty"` // from this machine's resolv.conf
	Missing     string            `json:"missing,omitempty"`     // a bridge or table that does not exist
	Listening   string            `json:"listening,omitempty"`   // listener's ADDRESS:PORT until the process ends
	Dialled     map[string]Answer `json:"dialled,omitempty"`     // by address
}

// Args returns the arguments that follow Command.
func (t Task) Args() (args []string) {
	for name, value := range map[string]string{"bridge": t.Bridge, "table": t.Table, "listen": t.Listen} {
		if value != "" {
			args = append(args, "-"+name+"="+value)
		}
	}
	if t.Renewal {
		args = append(args, "-renewal")
	}
	for _, a := range t.Dial {
		args = append(args, "-dial="+a)
	}
	for _, b := range t.Batches {
		args = append(args, base64.StdEncoding.EncodeToString(b))
	}
	return args
}

// parse is the inverse of Args.
func parse(args []string, stderr io.Writer) (t Task, err error) {
	flags := flag.NewFlagSet("worker "+Command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&t.Bridge, "bridge", "", "`interface` that must exist")
	flags.StringVar(&t.Table, "table", "", "`table` that must exist after the change")
	flags.StringVar(&t.Listen, "listen", "", "`address` to listen on in a trial")
	flags.BoolVar(&t.Renewal, "renewal", false, "listen only if the table was missing")
	flags.Func("dial", "`address` to dial in a trial; may be repeated", func(a string) error {
		t.Dial = append(t.Dial, a)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return t, err
	}
	for _, text := range flags.Args() {
		batch, failed := base64.StdEncoding.DecodeString(text)
		t.Batches, err = append(t.Batches, batch), errors.Join(err, failed)
	}
	return t, err
}

// Main carries out a task and prints Done. It returns 0 even if the kernel refused every batch, and 2 if the arguments
// are wrong or it cannot listen or print. If it listens, it returns after TrialLimit.
func Main(args []string, stdout, stderr io.Writer) int {
	t, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "worker fence:", err)
		return 2
	}
	done := Done{Used: -1, Nameservers: nameservers("/etc/resolv.conf")}
	renewed := t.Renewal && hasTable(t.Table)
	for i, batch := range t.Batches {
		err := send(batch)
		if err == nil {
			done.Used, done.Why = i, ""
			break
		}
		if done.Why == "" { // report why the preferred batch failed
			done.Why = err.Error()
		}
	}
	if len(t.Batches) > 0 || len(t.Listen)+len(t.Dial) == 0 { // not in trial containers, which cannot change rules
		if err := removeStale(TablePrefix); err != nil {
			fmt.Fprintln(stderr, "worker fence: could not remove tables of removed networks:", err)
		}
	}
	done.Missing = t.missing()
	if t.Listen != "" && !renewed && done.Missing == "" {
		l, err := net.Listen("tcp", t.Listen)
		if err != nil {
			fmt.Fprintln(stderr, "worker fence:", err)
			return 2
		}
		defer l.Close() // the kernel completes connections without an accept
		done.Listening = l.Addr().String()
	}
	done.Dialled = dial(t.Dial)
	if err := json.NewEncoder(stdout).Encode(done); err != nil {
		fmt.Fprintln(stderr, "worker fence:", err)
		return 2
	}
	if done.Listening != "" {
		time.Sleep(TrialLimit)
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

// answerLimit is the maximum wait for the kernel, which normally answers at once.
const answerLimit = 10 * time.Second

// send sends a batch to the kernel's netfilter and reads the answers. If one message fails, the kernel undoes the
// whole batch.
func send(batch []byte) error {
	messages, err := syscall.ParseNetlinkMessage(batch)
	if err != nil || len(messages) == 0 {
		return fmt.Errorf("parse netlink batch: %w", err)
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
