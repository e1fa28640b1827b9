package bus

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"retake/internal/bus/server"
)

// BenchmarkAppend is what agent_bus.sync costs: one batch of the journal after the other, as the driver writes
// them, with the times of the median and of the slowest hundredth. What is decided while an append is under way
// goes into the next batch: so decisions per second are batches per second times decisions in each.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []string{"always", "default"} {
		for _, size := range []int{1 << 10, 32 << 10} {
			b.Run(fmt.Sprintf("sync=%s/bytes=%d", sync, size), func(b *testing.B) {
				s, err := server.Start(b.Context(), server.Options{Dir: b.TempDir(), SyncAlways: sync == "always"})
				if err != nil {
					b.Fatal(err)
				}
				bus, err := Open(b.Context(), Options{Server: s})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = bus.Close(context.WithoutCancel(b.Context())) }()
				data, took, last := bytes.Repeat([]byte("x"), size), []time.Duration(nil), uint64(0)
				for b.Loop() {
					began := time.Now()
					if last, err = bus.Journal().Append(b.Context(), fmt.Sprintf("bench/%d", last+1), last,
						data); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "appends/s")
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}
