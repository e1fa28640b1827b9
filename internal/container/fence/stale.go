package fence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Kernel constants, from include/uapi/linux/netfilter/nfnetlink.h and nf_tables.h.
const (
	nftables     = 10 << 8
	getTable     = nftables | 1
	newTable     = nftables
	deleteTable  = nftables | 2
	batchBegin   = 0x10
	batchEnd     = 0x11
	attrName     = 1
	headerLength = syscall.SizeofNlMsghdr
)

// table is an nftables table in the kernel.
type table struct {
	family byte
	name   string
}

// removeStale removes tables of missing bridges. Such tables are harmless, since they match no packets.
func removeStale(prefix string) error {
	all, err := tables()
	if err != nil {
		return err
	}
	for _, t := range all {
		rest, ours := strings.CutPrefix(t.name, prefix)
		// Skip configured bridge names. They can contain hyphens, so the start of the fleet's name is unknown. Docker's
		// default name is "br-" and 12 digits.
		if !ours || !strings.HasPrefix(rest, "br-") || len(rest) < len("br-")+12 {
			continue
		}
		bridge := rest[:len("br-")+12]
		if _, gone := os.Stat(filepath.Join("/sys/class/net", bridge)); errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, send(t.removal()))
		}
	}
	return err
}

// tables lists all tables in the kernel.
func tables() (all []table, err error) {
	fd, err := open()
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	if err := syscall.Sendto(fd, message(getTable, syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP, 0, 0, nil), 0,
		kernel()); err != nil {
		return nil, err
	}
	for buffer := make([]byte, 1<<16); ; {
		n, _, err := syscall.Recvfrom(fd, buffer, 0)
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		said, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range said {
			switch {
			case m.Header.Type == syscall.NLMSG_DONE || m.Header.Type == syscall.NLMSG_ERROR:
				return all, nil
			case m.Header.Type == newTable && len(m.Data) > 4:
				all = append(all, table{m.Data[0], nameIn(m.Data[4:])})
			}
		}
	}
}

// nameIn reads a table's name from its attributes.
func nameIn(attrs []byte) string {
	for len(attrs) >= 4 {
		size, kind := int(binary.NativeEndian.Uint16(attrs)), binary.NativeEndian.Uint16(attrs[2:])
		if size < 4 || size > len(attrs) {
			return ""
		}
		if kind == attrName {
			return string(bytes.TrimRight(attrs[4:size], "\x00"))
		}
		attrs = attrs[min(aligned(size), len(attrs)):]
	}
	return ""
}

// removal returns the batch that removes the table.
func (t table) removal() []byte {
	name := append([]byte(t.name), 0)
	attr := binary.NativeEndian.AppendUint16(nil, uint16(4+len(name)))
	attr = append(binary.NativeEndian.AppendUint16(attr, attrName), name...)
	attr = append(attr, make([]byte, aligned(len(attr))-len(attr))...)
	out := message(batchBegin, syscall.NLM_F_REQUEST, 0, nftables>>8, nil)
	out = append(out, message(deleteTable, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK, t.family, 0, attr)...)
	return append(out, message(batchEnd, syscall.NLM_F_REQUEST, 0, nftables>>8, nil)...)
}

// message encodes a netlink message to netfilter: the netlink header, the netfilter header (family, version, a number
// in network order) and the attributes.
func message(kind, flags uint16, family byte, number uint16, attrs []byte) []byte {
	out := binary.NativeEndian.AppendUint32(nil, uint32(headerLength+4+len(attrs)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, flags)
	out = append(out, make([]byte, 8)...) // sequence number and sender, which this package ignores
	return append(binary.BigEndian.AppendUint16(append(out, family, 0), number), attrs...)
}

func aligned(n int) int { return (n + 3) &^ 3 }
