package journal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/server"
)

// BenchmarkAppend measures the cost of agent_bus.sync. It appends one batch after the other, as the driver
// does, and reports the median and the slowest hundredth. Decisions made during an append go into the next
// batch, so the rate of decisions is the rate of batches times the decisions per batch.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []string{"always", "default"} {
		for _, size := range []int{1 << 10, 32 << 10} {
			b.Run(fmt.Sprintf("sync=%s/bytes=%d", sync, size), func(b *testing.B) {
				s, err := server.Start(b.Context(), server.Options{Dir: b.TempDir(), SyncAlways: sync == "always"})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close(context.WithoutCancel(b.Context())) }()
				js, err := connect(s)
				if err != nil {
					b.Fatal(err)
				}
				defer js.Conn().Close()
				j, err := Open(b.Context(), Options{
					JS: js, Subject: "journal", Fleet: "default", Bytes: 4 << 30, Replicas: 1, Log: zap.NewNop(),
				})
				if err != nil {
					b.Fatal(err)
				}
				data, took, last := bytes.Repeat([]byte("x"), size), []time.Duration(nil), uint64(0)
				for b.Loop() {
					began := time.Now()
					if last, err = j.Append(b.Context(), fmt.Sprintf("bench/%d", last+1), last,
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
