package chain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// HeaderPrev is the message header in which a batch carries the digest of all earlier batches, in hex.
const HeaderPrev = "Retake-Prev"

// Digest is a SHA-256 digest that covers a batch and all batches before it. The zero Digest means the start of the
// journal, or an unknown digest.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText encodes the digest in hex.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText decodes hex.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("chain: %q is not a digest: want %d hex digits", text, 2*len(d))
	}
	copy(d[:], raw)
	return nil
}

// Head is a position in the journal. It holds the sequence of a batch, or 0 before the first, and the digest up to and
// including that batch.
type Head struct {
	Seq    uint64 `json:"seq"`
	Digest Digest `json:"digest"`
}

// Known reports whether h has a digest, or is the start of the journal. The digest is missing for batches written by
// older versions without HeaderPrev.
func (h Head) Known() bool { return h.Seq == 0 || h.Digest != Digest{} }

func (h Head) String() string { return fmt.Sprintf("%d (%.8s)", h.Seq, h.Digest) }

// Next returns the head after one more batch.
func (h Head) Next(id string, data []byte) Head {
	sum := sha256.New()
	sum.Write(h.Digest[:])
	sum.Write([]byte(id))
	sum.Write([]byte{0})
	sum.Write(data)
	next := Head{Seq: h.Seq + 1}
	sum.Sum(next.Digest[:0])
	return next
}

// Record is one batch of the journal.
type Record struct {
	Seq  uint64
	ID   string    // id of the batch, globally unique
	Prev string    // digest of the earlier batches, in hex; empty for a batch from an older version
	At   time.Time // when the server stored it
	Data []byte
}

// Chain checks the batches of a journal one by one.
type Chain struct {
	head   Head
	sure   bool // the digest covers the whole journal, including batches without HeaderPrev
	linked bool // from now on, every batch must have HeaderPrev
}

// Follow returns a Chain that begins after the given head. If the head has a digest, the journal already used
// HeaderPrev at that point, so all later batches must have the header.
func Follow(from Head) *Chain {
	return &Chain{head: from, sure: from.Known(), linked: from.Seq > 0 && from.Known()}
}

// Sure reports whether the head can be compared with heads from other sources. If Follow began with an unknown digest,
// Sure returns false until the first batch with HeaderPrev.
func (c *Chain) Sure() bool { return c.sure }

// Head returns the head after the batches added so far.
func (c *Chain) Head() Head { return c.head }

// Add checks the next batch and advances the head. If it fails, the error is a *Damage, and the head stays at the
// previous batch.
func (c *Chain) Add(r Record) error {
	if r.Seq != c.head.Seq+1 {
		return &Damage{
			Kind: Gap, Seq: c.head.Seq + 1, Want: fmt.Sprintf("batch %d", c.head.Seq+1),
			Got: fmt.Sprintf("batch %d", r.Seq),
		}
	}
	if r.Prev == "" && c.linked {
		return &Damage{
			Kind: Broken, Seq: r.Seq, Want: "the digest of the earlier batches, " + c.head.Digest.String(), Got: "none",
		}
	}
	if r.Prev != "" {
		var prev Digest
		if err := prev.UnmarshalText([]byte(r.Prev)); err != nil {
			return &Damage{
				Kind: Broken, Seq: r.Seq, Want: "the digest of the earlier batches, " + c.head.Digest.String(),
				Got: fmt.Sprintf("%.80q", r.Prev),
			}
		}
		if !c.sure {
			c.head.Digest, c.sure = prev, true
		}
		if prev != c.head.Digest {
			return &Damage{
				Kind: Broken, Seq: r.Seq, Want: "the digest of the earlier batches, " + c.head.Digest.String(),
				Got: prev.String(),
			}
		}
		c.linked = true
	}
	c.head = c.head.Next(r.ID, r.Data)
	return nil
}
