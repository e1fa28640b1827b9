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

// rules are what the kernel is to keep of a network for one fleet: two tables of nftables of one name, which
// nobody else's rules are in. A packet that they drop is gone whatever other tables say; one that they let pass
// still has to pass those.
//
//	inet    input    from the bridge: doors, neighbour discovery, nothing else of this host
//	        forward  from the bridge: doors, name servers while it is open; then nothing, or public addresses
//	bridge  forward  from port to port: what stands on the network and is a door, nothing else
//
// The last is needed where br_netfilter is not loaded: there a packet from worker to worker is not seen by the
// former two.
//
// Fleets may share a network, and know nothing of each other's doors: each marks what is for its own, in chains
// that come first, and drops nothing that anybody has marked. So all doors are open for all, and who wants
// least to be reached besides has the last word.
type rules struct {
	fleet       string
	bridge      string         // interface
	stale       string         // that of a network that was in its place; empty: none
	subnets     []netip.Prefix // of the network
	doors       []netip.AddrPort
	nameservers []netip.Addr
	closed      bool // nothing but doors
}

// tables are ours, by their name: retake-<bridge>-<fleet>.
func (r rules) tables(bridge string) [2]*nftables.Table {
	name := fence.TablePrefix + bridge + "-" + r.fleet
	return [2]*nftables.Table{
		{Name: name, Family: nftables.TableFamilyINet},
		{Name: name, Family: nftables.TableFamilyBridge},
	}
}

// batches are the messages that put the rules in place of those of before, as a whole: the best first, then
// what kernels with less take. Bridges are told apart by name in the bridge's table (nft_meta_bridge), or by
// their addresses, which says the same of all but what has no address of the network. Programs are told at once
// that they do not get through (nft_reject), or wait.
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

// removal are the messages that remove the tables of a network, which need not be there.
func (r rules) removal() ([]byte, error) { return encode(r.empty) }

// empty removes the tables, also if they are not there.
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

// encode returns what a connection would have sent.
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
	// nobody rejects between ports
	ports := pair(c, bridge, "forward", nftables.ChainHookForward, &expr.Verdict{Kind: expr.VerdictDrop})
	for _, d := range r.doors {
		there := slices.Concat(address(d.Addr(), false), port(unix.IPPROTO_TCP, d.Port(), false))
		input.door(from, there)
		forward.door(from, there)
		if r.inside(d.Addr()) { // what is on the network itself also answers there
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
		for _, n := range r.nameservers { // the engine's resolver asks from the workers' network
			for _, p := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
				input.door(from, address(n, false), port(p, 53, false))
				forward.door(from, address(n, false), port(p, 53, false))
			}
		}
	}
	ports.door(protocol(unix.ETH_P_ARP)) // who has a door's address; it carries nothing

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

// hook is the two chains of one place in the kernel: the first marks, the last drops what nobody has marked.
type hook struct {
	c           *nftables.Conn
	first, last *nftables.Chain
	no          expr.Any // what becomes of a packet that is not to pass
}

// pair makes the chains of a hook.
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

// door marks what the parts match.
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

// drop lets it not pass.
func (h hook) drop(parts ...[]expr.Any) {
	h.add(h.last, []expr.Any{h.no}, parts...)
}

// doorMark is the bit of a packet's mark that says that it is for a door. No process in a container sets it:
// that takes NET_ADMIN, and a packet loses its mark between networks.
const doorMark = 0x00200000

func nativeMark() []byte { return binary.NativeEndian.AppendUint32(nil, doorMark) }

// loadMark is that bit.
func loadMark() []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Bitwise{
		SourceRegister: 1, DestRegister: 1,
		Len: 4, Mask: nativeMark(), Xor: make([]byte, 4),
	}}
}

// inside reports whether something of that address stands on the network itself.
func (r rules) inside(a netip.Addr) bool {
	return slices.ContainsFunc(r.subnets, func(p netip.Prefix) bool { return p.Contains(a) })
}

// fromSubnets is what comes from an address of the network, in the bridge's table.
func (r rules) fromSubnets() (all [][]expr.Any) {
	for _, p := range r.subnets {
		all = append(all, block(p.Masked(), true))
	}
	return all
}

// discovery are the kinds of ICMPv6 without which IPv6 does not reach a gateway: solicitation and advertisement
// of routers and neighbours.
var discovery = []byte{133, 134, 135, 136}

// named compares the name of an interface.
func named(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, equal(padded...)}
}

// protocol compares what a frame carries.
func protocol(ethertype uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		equal(binary.BigEndian.AppendUint16(nil, ethertype)...),
	}
}

// frame is what carries a packet of an address's family: in the bridge's table there are others.
func frame(a netip.Addr) []expr.Any {
	if a.Is4() {
		return protocol(unix.ETH_P_IP)
	}
	return protocol(unix.ETH_P_IPV6)
}

// address compares where a packet goes, or comes from.
func address(a netip.Addr, source bool) []expr.Any {
	return block(netip.PrefixFrom(a, a.BitLen()), source)
}

// block compares the beginning of that address.
func block(p netip.Prefix, source bool) []expr.Any {
	size, at := uint32(p.Addr().BitLen()/8), uint32(16) // IPv4: the destination follows the source at byte 12
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

// port compares a transport's port, of the destination or the source.
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

// icmp6 compares a kind of ICMPv6.
func icmp6(kind byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal(unix.IPPROTO_ICMPV6),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}, equal(kind),
	}
}

func equal(data ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
