package container

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"retake/internal/container/fence"
	"retake/internal/sys/publicaddr"
)

// rules are the packet filter rules of one fleet on a network, in two private nftables tables with the same name. A
// packet dropped here is lost regardless of other tables, and an accepted packet must still pass the other tables.
//
//	inet    input    from the bridge, only doors and neighbour discovery with this host
//	        forward  from the bridge, only doors and (unless closed) name servers and public addresses
//	bridge  forward  from port to port, only doors on the network
//
// The bridge table is needed on hosts without br_netfilter, where the inet table does not see packets between workers.
//
// Fleets may share a network without knowing each other's doors. Each fleet marks packets to its doors in chains that
// run first. No fleet drops marked packets, so each fleet's doors are open to all fleets. All other packets must
// satisfy the strictest fleet.
type rules struct {
	fleet       string
	bridge      string         // interface
	stale       string         // bridge of a replaced network, or empty
	subnets     []netip.Prefix // of the network
	doors       []netip.AddrPort
	nameservers []netip.Addr
	closed      bool // doors only
}

// tables returns our tables, named retake-<bridge>-<fleet>.
func (r rules) tables(bridge string) [2]*nftables.Table {
	name := fence.TablePrefix + bridge + "-" + r.fleet
	return [2]*nftables.Table{
		{Name: name, Family: nftables.TableFamilyINet},
		{Name: name, Family: nftables.TableFamilyBridge},
	}
}

// batches returns alternative message batches. Each one replaces the rules atomically. The best comes first, and the
// others suit kernels with fewer features. Without nft_meta_bridge, the bridge table matches source addresses instead
// of the bridge, so it misses sources outside the network. Without nft_reject, a rejected connection times out instead
// of failing at once.
func (r rules) batches() (all [][]byte, err error) {
	for _, no := range []expr.Any{&expr.Reject{
		Type: unix.NFT_REJECT_ICMPX_UNREACH,
		Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED,
	}, &expr.Verdict{Kind: expr.VerdictDrop}} {
		for _, from := range [][][]expr.Any{{named(expr.MetaKeyBRIIIFNAME, r.bridge)}, r.fromSubnets()} {
			b, failed := encode(func(c *nftables.Conn) { r.write(c, from, no) })
			all, err = append(all, b), errors.Join(err, failed)
		}
	}
	return all, err
}

// removal returns the messages that remove a network's tables, if they exist.
func (r rules) removal() ([]byte, error) { return encode(r.empty) }

// empty removes the tables, if they exist.
func (r rules) empty(c *nftables.Conn) {
	for _, bridge := range []string{r.bridge, r.stale} {
		for _, t := range r.tables(bridge) {
			if bridge != "" {
				c.AddTable(t)
				c.DelTable(t)
			}
		}
	}
}

// encode returns the bytes that a connection would send.
func encode(write func(*nftables.Conn)) (batch []byte, err error) {
	c, err := nftables.New(nftables.WithTestDial(func(sent []netlink.Message) ([]netlink.Message, error) {
		answers := []netlink.Message{}
		for _, m := range sent {
			one, failed := m.MarshalBinary()
			batch, err = append(batch, one...), errors.Join(err, failed)
			if m.Header.Flags&netlink.Acknowledge != 0 {
				answers = append(answers,
					netlink.Message{
						Header: netlink.Header{Type: netlink.Error, Sequence: m.Header.Sequence},
						Data:   make([]byte, 4),
					})
			}
		}
		return answers, nil
	}))
	if err != nil {
		return nil, err
	}
	write(c)
	return batch, errors.Join(err, c.Flush())
}

func (r rules) write(c *nftables.Conn, fromBridge [][]expr.Any, no expr.Any) {
	r.empty(c)
	ours := r.tables(r.bridge)
	inet, bridge := c.AddTable(ours[0]), c.AddTable(ours[1])
	from, to := named(expr.MetaKeyIIFNAME, r.bridge), named(expr.MetaKeyOIFNAME, r.bridge)

	input, forward := pair(c, inet, "input", nftables.ChainHookInput, no), pair(c, inet, "forward",
		nftables.ChainHookForward, no)
	// nftables cannot reject packets between bridge ports.
	ports := pair(c, bridge, "forward", nftables.ChainHookForward, &expr.Verdict{Kind: expr.VerdictDrop})
	for _, d := range r.doors {
		there := slices.Concat(address(d.Addr(), false), port(unix.IPPROTO_TCP, d.Port(), false))
		input.door(from, there)
		forward.door(from, there)
		if r.inside(d.Addr()) { // allow replies from a door on the network
			back := slices.Concat(address(d.Addr(), true), port(unix.IPPROTO_TCP, d.Port(), true))
			forward.door(from, to, back)
			ports.door(there)
			ports.door(back)
		}
	}
	for _, kind := range discovery {
		input.door(from, icmp6(kind))
	}
	if !r.closed {
		for _, n := range r.nameservers { // the engine's resolver sends its queries from the workers' network
			for _, p := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
				input.door(from, address(n, false), port(p, 53, false))
				forward.door(from, address(n, false), port(p, 53, false))
			}
		}
	}
	ports.door(protocol(unix.ETH_P_ARP)) // ARP finds the doors and carries no data

	input.drop(from)
	forward.drop(from, to)
	if r.closed {
		forward.drop(from)
	} else {
		for _, p := range slices.Concat(publicaddr.Special4, publicaddr.Special6) {
			forward.drop(from, block(p, false))
		}
		forward.add(forward.last, []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, from,
			block(publicaddr.Global6, false))
		forward.drop(from, frame(netip.IPv6Unspecified()))
	}
	for _, f := range fromBridge {
		ports.drop(f)
	}
}

// hook is a pair of chains at one netfilter hook. Rules in the first chain mark packets, and rules in the last chain
// drop unmarked packets.
type hook struct {
	c           *nftables.Conn
	first, last *nftables.Chain
	no          expr.Any // verdict for packets that must not pass
}

// pair creates the chains of a hook.
func pair(c *nftables.Conn, t *nftables.Table, name string, at *nftables.ChainHook, no expr.Any) hook {
	chain := func(name string, priority nftables.ChainPriority) *nftables.Chain {
		accept := nftables.ChainPolicyAccept
		return c.AddChain(&nftables.Chain{
			Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: at,
			Priority: &priority, Policy: &accept,
		})
	}
	h := hook{c, chain("doors-"+name, -2), chain(name, -1), no}
	h.add(h.last, []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, loadMark(), []expr.Any{equal(nativeMark()...)})
	return h
}

func (h hook) add(chain *nftables.Chain, does []expr.Any, parts ...[]expr.Any) {
	h.c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: append(slices.Concat(parts...), does...)})
}

// door adds a rule that marks matching packets.
func (h hook) door(parts ...[]expr.Any) {
	set := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, ^uint32(doorMark)), Xor: nativeMark(),
		},
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true},
	}
	h.add(h.first, set, parts...)
}

// drop adds a rule that applies the hook's verdict to matching packets without a mark.
func (h hook) drop(parts ...[]expr.Any) {
	h.add(h.last, []expr.Any{h.no}, parts...)
}

// doorMark is the mark bit for packets to and from doors. Processes in containers cannot set it without NET_ADMIN, and
// the kernel clears marks between network namespaces.
const doorMark = 0x00200000

func nativeMark() []byte { return binary.NativeEndian.AppendUint32(nil, doorMark) }

// loadMark loads the mark's door bit.
func loadMark() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Bitwise{
		SourceRegister: 1, DestRegister: 1,
		Len: 4, Mask: nativeMark(), Xor: make([]byte, 4),
	}}
}

// inside reports whether an address is on the network.
func (r rules) inside(a netip.Addr) bool {
	return slices.ContainsFunc(r.subnets, func(p netip.Prefix) bool { return p.Contains(a) })
}

// fromSubnets matches sources on the network, for the bridge table.
func (r rules) fromSubnets() (all [][]expr.Any) {
	for _, p := range r.subnets {
		all = append(all, block(p.Masked(), true))
	}
	return all
}

// discovery lists the ICMPv6 types that IPv6 needs to reach a gateway: router and neighbour solicitation and
// advertisement.
var discovery = []byte{133, 134, 135, 136}

// named matches an interface name.
func named(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, equal(padded...)}
}

// protocol matches the ethertype of a frame.
func protocol(ethertype uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		equal(binary.BigEndian.AppendUint16(nil, ethertype)...),
	}
}

// frame matches packets of an address's family, since the bridge table sees packets of all families.
func frame(a netip.Addr) []expr.Any {
	if a.Is4() {
		return protocol(unix.ETH_P_IP)
	}
	return protocol(unix.ETH_P_IPV6)
}

// address matches a destination or source.
func address(a netip.Addr, source bool) []expr.Any {
	return block(netip.PrefixFrom(a, a.BitLen()), source)
}

// block matches a destination or source within a prefix.
func block(p netip.Prefix, source bool) []expr.Any {
	size, at := uint32(p.Addr().BitLen()/8), uint32(16) // in IPv4 the destination follows the source at byte 12
	if p.Addr().Is6() {
		at = 24
	}
	if source {
		at -= size
	}
	mask := make([]byte, size)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(frame(p.Addr()),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: mask, Xor: make([]byte, size)},
		equal(p.Masked().Addr().AsSlice()...))
}

// port matches a destination or source port.
func port(transport byte, n uint16, source bool) []expr.Any {
	at := uint32(2)
	if source {
		at = 0
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal(transport),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: at, Len: 2},
		equal(binary.BigEndian.AppendUint16(nil, n)...),
	}
}

// icmp6 matches an ICMPv6 type.
func icmp6(kind byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal(unix.IPPROTO_ICMPV6),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}, equal(kind),
	}
}

func equal(data ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
