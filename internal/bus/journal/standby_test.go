package journal

import (
	"errors"
	"testing"

	"retake/internal/bus/chain"
)

// If the server loses batches that a standby has read, at its start or later, the standby reports the loss when it
// takes over, and until the batches are back.
func TestAStandbyKnowsWhatItHasRead(t *testing.T) {
	leader := begun(t)
	standby := leader.beside()
	replay := func(after chain.Head) (chain.Head, error) {
		return standby.Replay(ctxFor(t), after, func(uint64, []byte) error { return nil })
	}
	leader.more(3)
	hot, err := replay(chain.Head{})
	mustDo(t, err)
	leader.more(3)
	if hot, err = replay(hot); err != nil || hot.Seq != 6 {
		t.Fatal(hot, err)
	}
	leader.cutTo(4)
	for name, after := range map[string]chain.Head{"what it follows": hot, "a takeover": {}, "the next one": {}} {
		_, err := replay(after)
		damage, ok := errors.AsType[*chain.Damage](err)
		if !ok || damage.Kind != chain.Cut || damage.Seq < 5 {
			t.Errorf("%s: %v, want a journal that was cut", name, err)
		}
	}
	mustDo(t, standby.again())
	if _, err := replay(chain.Head{}); !errors.Is(err, chain.ErrDamaged) {
		t.Errorf("after Ensure: %v", err)
	}
}
