package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/container/containertest"
)

// fleetVariable is the number of attempts in TestFleetOnFakeNodes. tools/kube/fleet.sh sets it when it runs a cluster
// with fake nodes, which only report that pods run.
const fleetVariable = "RETAKE_TEST_FLEET"

// quietFor is the time during which TestFleetOnFakeNodes observes an idle fleet.
const quietFor = 3 * time.Minute

// measured has the duration of an action, the processor time of this process, and its requests to the API.
type measured struct {
	took, cpu time.Duration
	requests  map[Right]int
}

func (m measured) String() string {
	var each []string
	for _, r := range slices.SortedFunc(maps.Keys(m.requests),
		func(a, b Right) int { return strings.Compare(a.String(), b.String()) }) {
		each = append(each, fmt.Sprintf("%s %d", r, m.requests[r]))
	}
	return fmt.Sprintf("%.1f s, %.2f s of processor time; requests: %s", m.took.Seconds(), m.cpu.Seconds(),
		strings.Join(each, ", "))
}

func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fleetRun measures a large fleet.
type fleetRun struct {
	t    *testing.T
	k    *Kubernetes
	node *node
	mu   *sync.Mutex
	used map[Right]int // guarded by mu
}

func (r *fleetRun) measure(what string, do func()) measured {
	r.mu.Lock()
	clear(r.used)
	r.mu.Unlock()
	began, cpu := time.Now(), processor()
	do()
	r.mu.Lock()
	defer r.mu.Unlock()
	m := measured{time.Since(began), processor() - cpu, maps.Clone(r.used)}
	r.t.Logf("%s: %v", what, m)
	return m
}

func (r *fleetRun) awaitRunning(want int) {
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		list, err := r.k.List(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		got := 0
		for _, s := range list {
			if s.State == container.StateRunning {
				got++
			}
		}
		if got == want {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d of %d run", got, want)
		}
	}
}

func (r *fleetRun) start(count, atOnce int) {
	var wg sync.WaitGroup
	next, each := make(chan container.Spec), make([]time.Duration, 0, count)
	for range atOnce {
		wg.Go(func() {
			for s := range next {
				began := time.Now()
				err := r.k.Ensure(r.t.Context(), s)
				r.mu.Lock()
				if each = append(each, time.Since(began)); err != nil {
					r.t.Error(err)
				}
				r.mu.Unlock()
			}
		})
	}
	for range count {
		next <- r.node.spec(r.t, "sleep")
	}
	close(next)
	wg.Wait()
	slices.Sort(each)
	r.t.Logf("%d starts, %d at a time: a Job exists after %v (median), %v (slowest hundredth), %v (slowest)", count,
		atOnce, each[count/2], each[count*99/100], each[count-1])
}

// TestFleetOnFakeNodes measures the director's cost of thousands of attempts: of their starts, of an idle fleet, and of
// 100 more starts. It does not read output, because workers on fake nodes do not print any.
func TestFleetOnFakeNodes(t *testing.T) {
	size, _ := strconv.Atoi(os.Getenv(fleetVariable))
	if size == 0 {
		t.Skip("thousands of attempts on fake nodes: make kube-fleet starts them")
	}
	n := onNode(t)
	n.kubectl(t, role(n.namespace), "apply", "-f", "-")
	var mu sync.Mutex
	used := map[Right]int{}
	o := n.options(containertest.Name("fleet"))
	o.Kubeconfig = filepath.Join(n.dir, "director.conf")
	o.wrap = func(next http.RoundTripper) http.RoundTripper { return counter{next, &mu, used} }
	r := &fleetRun{t: t, k: openNode(t, o), node: n, mu: &mu, used: used}
	r.measure(fmt.Sprintf("%d attempts until all run", size), func() {
		r.start(size, 16)
		r.awaitRunning(size)
	})
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("heap in use: %.1f MB", float64(mem.HeapInuse)/1e6)
	quiet := r.measure(fmt.Sprintf("nothing happens for %v", quietFor), func() { time.Sleep(quietFor) })
	for right, count := range quiet.requests {
		if right.Verb == "list" {
			t.Errorf("%d lists in %v, want only a watch", count, quietFor)
		}
	}
	r.measure("100 sequential attempts", func() {
		r.start(100, 1)
		r.awaitRunning(size + 100)
	})
}
