package bench

import "testing"

func TestMet(t *testing.T) {
	for name, c := range map[string]struct {
		f    Figure
		want bool
	}{
		"informs":                 {Figure{Value: 1}, true},
		"above":                   {Figure{Value: 5, Goal: Goal{AtLeast: 4}}, true},
		"below":                   {Figure{Value: 3, Goal: Goal{AtLeast: 4}}, false},
		"at most":                 {Figure{Value: 3, Goal: Goal{AtMost: 3}}, true},
		"over":                    {Figure{Value: 3.1, Goal: Goal{AtMost: 3}}, false},
		"ratio":                   {Figure{Value: 50, Beside: 100, Goal: Goal{AtLeast: 0.45, Ratio: true}}, true},
		"ratio missed":            {Figure{Value: 40, Beside: 100, Goal: Goal{AtLeast: 0.45, Ratio: true}}, false},
		"ratio to nothing":        {Figure{Value: 40, Goal: Goal{AtLeast: 0.45, Ratio: true}}, false},
		"ratio at most, no ratio": {Figure{Value: 40, Goal: Goal{AtMost: 3, Ratio: true}}, false},
	} {
		if got := c.f.Met(); got != c.want {
			t.Errorf("%s: met is %v, want %v", name, got, c.want)
		}
	}
}

func TestString(t *testing.T) {
	f := Figure{
		What: "1 KiB, synced", Value: 25123.4, Unit: "/s", Beside: 51000, Of: "raw bus",
		Goal: Goal{AtLeast: 0.45, Ratio: true},
	}
	const want = "✓ 1 KiB, synced                                                                25,123/s  0.493 × " +
		"of raw bus (51,000/s)  goal ≥ 0.45 ×"
	if got := f.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
