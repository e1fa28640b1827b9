package deep

import (
	"testing"
	"time"
)

type leaf struct {
	n     int
	words []string
}

type tree struct {
	Name    string
	at      time.Time
	by      map[string]int
	own     *leaf
	again   *leaf // points to the same value as own
	shared  *rooted
	any     any
	ignored int
}

type rooted struct{ n int }

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func example() *tree {
	l := &leaf{n: 1, words: []string{"a", "b"}}
	return &tree{
		Name: "x", at: began.Add(time.Hour), by: map[string]int{"p": 1, "q": 2}, own: l, again: l,
		shared: &rooted{1}, any: leaf{n: 2},
	}
}

var walks = New([]string{"leaf"}, "tree.ignored")

func sumOf(t *tree, from time.Time) uint64 {
	h := Hash{From: from}
	Sum(walks, t, &h)
	return h.Sum
}

// Every field affects the sum except the skipped fields. Times are hashed relative to From.
func TestSumSeesEveryField(t *testing.T) {
	want := sumOf(example(), began)
	for name, change := range map[string]func(*tree){
		"string": func(x *tree) { x.Name = "y" }, "time": func(x *tree) { x.at = x.at.Add(1) },
		"map": func(x *tree) { x.by["p"] = 3 }, "behind a pointer": func(x *tree) { x.own.words[1] = "c" },
		"shared": func(x *tree) { x.shared.n = 2 }, "interface": func(x *tree) { x.any = leaf{n: 3} },
	} {
		x := example()
		change(x)
		if sumOf(x, began) == want {
			t.Errorf("%s: the sum does not see the change", name)
		}
	}
	x := example()
	if x.ignored = 7; sumOf(x, began) != want {
		t.Error("a skipped field counts")
	}
	if x.at = x.at.Add(time.Minute); sumOf(x, began.Add(time.Minute)) != want {
		t.Error("an equal distance gives a different sum")
	}
}

// A copy shares only immutable values. Two pointers to the same value stay equal in the copy.
func TestCloneOwnsTheMutable(t *testing.T) {
	x := example()
	want := sumOf(x, began)
	c := Clone(walks, x)
	if c.own != c.again || c.own == x.own || c.shared != x.shared {
		t.Fatal("pointers are copied wrongly")
	}
	c.own.words[0], c.by["p"], c.Name = "z", 9, "z"
	if sumOf(x, began) != want {
		t.Error("a change of the copy changed the original")
	}
}
