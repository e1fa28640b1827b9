package attack

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"retake/internal/bus/wire"
)

// lineAttacks check that data sent without a NATS client costs the server and other workers little.
var lineAttacks = []attack{
	{
		name: "hoarded connections", kind: onBus,
		does:  "signs in 300 times with one credential and stays",
		holds: "at most 4 stay; the neighbour is served", before: "held on the embedded bus (the oldest is closed)",
		run: func(b *battle) error {
			var open []*line
			defer func() {
				for _, l := range open {
					l.Close()
				}
			}()
			for range 300 {
				if l, err := b.me.signIn(); err == nil {
					open = append(open, l)
				}
			}
			time.Sleep(time.Second)
			var alive atomic.Int64
			var wg sync.WaitGroup
			for _, l := range open {
				wg.Go(func() {
					if !l.cutOff(2 * time.Second) {
						alive.Add(1)
					}
				})
			}
			wg.Wait()
			b.note("%d signed in, %d stayed", len(open), alive.Load())
			if alive.Load() > 4 {
				return fmt.Errorf("%d connections stay", alive.Load())
			}
			return nil
		},
	},
	{
		name: "half-open handshakes", kind: onBus,
		does: "2,000 connections with silence, half a CONNECT, a TLS hello, an HTTP request, or junk " +
			"without a newline",
		holds:  "cut off within 10 s, at most 64 at once; the neighbour is served",
		before: "succeeded: 7,300 descriptors and 775 MB with two processes",
		run: func(b *battle) error {
			var open []*line
			starts := []string{
				"", "CONNECT {\"user\":\"", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
				"GET / HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("A", 4096),
			}
			for i := range 2000 {
				l, err := b.me.call()
				if err != nil {
					continue
				}
				_, _ = l.Write([]byte(starts[i%len(starts)]))
				open = append(open, l)
			}
			defer func() {
				for _, l := range open {
					l.Close()
				}
			}()
			fds := b.descriptors()
			time.Sleep(10 * time.Second)
			var alive atomic.Int64
			var wg sync.WaitGroup
			for _, l := range open {
				wg.Go(func() {
					if !l.cutOff(time.Second) {
						alive.Add(1)
					}
				})
			}
			wg.Wait()
			b.note("%d opened, %d descriptors of the director, %d alive after 10 s", len(open), fds, alive.Load())
			if alive.Load() > 0 || fds > 400 {
				return fmt.Errorf("%d of %d connections stay open, %d descriptors", alive.Load(), len(open), fds)
			}
			return nil
		},
	},
	{
		name: "unauthenticated bytes", kind: onBus,
		does: "64 connections at a time that send junk at full speed, with new ones as soon as they are " +
			"closed, for 20 s",
		holds: "director below 300 MB; the neighbour is served", before: "held",
		run: func(b *battle) error {
			var sent, calls atomic.Int64
			until := time.Now().Add(20 * time.Second)
			junk := []byte(strings.Repeat("PUB a 1048576 ", 4096))
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for time.Now().Before(until) {
						l, err := b.me.call()
						if err != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						calls.Add(1)
						_ = l.SetDeadline(until)
						for {
							n, err := l.Write(junk)
							sent.Add(int64(n))
							if err != nil {
								break
							}
						}
						l.Close()
					}
				})
			}
			wg.Wait()
			b.note("%d connections, %d MB sent", calls.Load(), sent.Load()>>20)
			return nil
		},
	},
	{
		name: "a partial PUB", kind: onBus,
		does:  "announces 1 MiB and 64 KiB on 40 connections, sends 10 bytes, and waits",
		holds: "bounded memory; the neighbour is served", before: "held",
		run: func(b *battle) error {
			var open []*line
			for range 40 {
				l, err := b.me.signIn()
				if err != nil {
					continue
				}
				open = append(open, l)
				_, _ = fmt.Fprintf(l, "PUB %s %d\r\n0123456789", b.me.subject(wire.ChannelError), 1<<20)
			}
			time.Sleep(2 * time.Second)
			for _, l := range open {
				l.Close()
			}
			b.note("%d announced", len(open))
			return nil
		},
	},
	{
		name: "a message over the limit", kind: onBus,
		does: "publishes twice max_message_bytes and 1 MiB on its subjects, and max_message_bytes + 1; announces 2 " +
			"GiB and a negative length",
		holds:  "the server refuses it and disconnects, without storing it",
		before: "succeeded: the server accepted 1 MiB",
		run: func(b *battle) error {
			before := b.reports()
			// the server's limit leaves room for headers
			for _, n := range []int{2*b.me.Plan.Bus.MaxMessageBytes + 1, 1 << 20} {

				l, err := b.me.signIn()
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(l, "PUB %s %d\r\n%s\r\nPING\r\n", b.me.subject(wire.ChannelError), n,
					strings.Repeat("x", n))
				err = l.want("PONG")
				l.Close()
				if err == nil {
					return fmt.Errorf("%d bytes were accepted", n)
				}
				b.note("%d bytes: %v", n, err)
			}
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			_, _ = t.ask(b.me.subject(wire.ChannelError), []byte(strings.Repeat("x", b.me.Plan.Bus.MaxMessageBytes+1)))
			t.Close()
			for _, n := range []string{"2147483648", "-1", "99999999999999999999"} {
				l, err := b.me.signIn()
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(l, "PUB %s %s\r\n", b.me.subject(wire.ChannelError), n)
				gone := l.cutOff(5 * time.Second)
				l.Close()
				if !gone {
					return fmt.Errorf("the server waits for a message of %s bytes", n)
				}
			}
			if after := b.reports(); after != before {
				return fmt.Errorf("%d reports were stored", after-before)
			}
			return nil
		},
	},
	{
		name: "a slow reader", kind: onBus,
		does:  "subscribes, gets the maximum (own inbox, 200,000 messages), and never reads its socket",
		holds: "the server hangs up on it alone; bounded memory", before: "held",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			if c, ok := l.Conn.(*net.TCPConn); ok {
				_ = c.SetReadBuffer(4096)
			}
			_, _ = fmt.Fprintf(l, "SUB %s.> 1\r\nSUB %s 2\r\n", inbox(b.me.Plan), subjects(b.me).Control(b.me.id))
			hello := b.me.message(helloOf(b.me.id))
			sent := 0
			_ = l.SetWriteDeadline(time.Now().Add(15 * time.Second))
			for range 200_000 {
				if _, err := fmt.Fprintf(l, "PUB %s %s.x %d\r\n%s\r\n", b.me.subject(wire.ChannelHello),
					inbox(b.me.Plan), len(hello), hello); err != nil {
					break
				}
				sent++
			}
			b.note("%d requests with unread answers", sent)
			return nil
		},
	},
	{
		name: "subscriptions without end", kind: onBus,
		does:  "SUB 50,000 times below its own inbox, and SUB/UNSUB 100,000 times",
		holds: "at most 8 stay; bounded memory", before: "succeeded: all were accepted",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			var text strings.Builder
			for i := range 50_000 {
				fmt.Fprintf(&text, "SUB %s.s%d %d\r\n", inbox(b.me.Plan), i, i+1)
			}
			_ = l.SetDeadline(time.Now().Add(20 * time.Second))
			go func() {
				_, _ = l.Write([]byte(text.String()))
				_, _ = l.Write([]byte("PING\r\n"))
			}()
			if err := l.want("PONG"); err == nil {
				return errors.New("50,000 subscriptions were accepted")
			} else {
				b.note("%v", err)
			}
			again, err := b.me.signIn()
			if err != nil {
				return nil // being disconnected for good also stops the attack
			}
			defer again.Close()
			_ = again.SetDeadline(time.Now().Add(20 * time.Second))
			for i := range 100_000 {
				if _, err := fmt.Fprintf(again, "SUB %s.u 1\r\nUNSUB 1\r\n", inbox(b.me.Plan)); err != nil {
					b.note("cut off after %d changes", i)
					break
				}
			}
			return nil
		},
	},
	{
		name: "pings and protocol noise", kind: onBus,
		does:  "2 million PINGs, blank lines, INFO and +OK on a connection that is signed in",
		holds: "slowed down or cut off; the neighbour is served", before: "held",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			go func() {
				for {
					if _, err := l.r.Discard(4096); err != nil {
						return
					}
				}
			}()
			_ = l.SetWriteDeadline(time.Now().Add(10 * time.Second))
			began, noise, sent := time.Now(), []byte(strings.Repeat("PING\r\nPONG\r\n+OK\r\n", 1000)), 0
			for range 2000 {
				if _, err := l.Write(noise); err != nil {
					break
				}
				sent++
			}
			b.note("%d MB in %.1f s", sent*len(noise)>>20, time.Since(began).Seconds())
			return nil
		},
	},
}
