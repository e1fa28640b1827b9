package journal

import (
	"errors"
	"testing"

	"retake/internal/bus/chain"
)

// A standby has read batches, at its start or later, that the server loses before it takes over. It reports the loss
// until the batches are back.
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
		t.Errorf("after its streams were made sure of: %v", err)
	}
}
