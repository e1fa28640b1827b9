package gate

import (
	"container/heap"
	"slices"
)

// kind contains the properties on which admission depends. The gate treats all requests of a kind equally, so it
// considers only the oldest request of each kind.
type kind struct {
	lane             Lane
	write, graphQL   bool
	part             bool
	changes, content int
}

func (r *Request) kind() kind {
	return kind{r.Lane, r.Write, r.GraphQL, r.Part != nil, r.Changes, r.Content}
}

// lines holds the waiting requests by kind, without empty lines.
type lines map[kind]*line

func (l lines) add(r *Request) {
	if l[r.kind()] == nil {
		l[r.kind()] = &line{}
	}
	heap.Push(l[r.kind()], r)
}

// remove removes a request. It returns false if the request is not waiting.
func (l lines) remove(r *Request) bool {
	of := l[r.kind()]
	if of == nil || r.at >= len(*of) || (*of)[r.at] != r {
		return false
	}
	if heap.Remove(of, r.at); len(*of) == 0 {
		delete(l, r.kind())
	}
	return true
}

// clear removes and returns all requests of a kind.
func (l lines) clear(k kind) []*Request {
	all := *l[k]
	delete(l, k)
	return all
}

// heads returns the next request of each kind, in the order of their turns.
func (l lines) heads() []*Request {
	heads := make([]*Request, 0, len(l))
	for _, of := range l {
		heads = append(heads, (*of)[0])
	}
	slices.SortFunc(heads, (*Request).compare)
	return heads
}

// waiting returns the number of waiting requests.
func (l lines) waiting() (n int) {
	for _, of := range l {
		n += len(*of)
	}
	return n
}

// line is a heap of requests of one kind, with the oldest request at index 0.
type line []*Request

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i].compare(l[j]) < 0 }

func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

func (l *line) Push(r any) {
	r.(*Request).at = len(*l)
	*l = append(*l, r.(*Request))
}

func (l *line) Pop() any {
	last := len(*l) - 1
	r := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return r
}
