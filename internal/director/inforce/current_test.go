package inforce

import (
	"slices"
	"testing"

	"retake/internal/config"
	"retake/internal/fsm"
)

// A change that is not in the journal yet becomes part of the next change. A decided change does not.
func TestUndecidedChangesBecomeOneFact(t *testing.T) {
	var c Current
	put := func(keys ...string) *Setup {
		s, err := New(config.Default(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.Load() == nil {
			c.Store(s)
		} else {
			c.Replace(s, &fsm.SettingsChanged{Keys: keys})
		}
		return s
	}
	put()
	put("a")
	both := put("b")
	if got := both.Change.Keys; !slices.Equal(got, []string{"b", "a"}) || c.Load() != both || both.IsDecided() {
		t.Errorf("the fact has %q", got)
	}
	both.MarkDecided()
	<-both.Decided()
	if got := put("c").Change.Keys; !slices.Equal(got, []string{"c"}) {
		t.Errorf("after a decided change the fact has %q", got)
	}
}
