package offline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/config"
	"retake/internal/fsm"
)

// Verify finds a snapshot with the wrong state or of another journal, because a director would decide by it.
func TestVerifyComparesSnapshots(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Director.DataDir = t.TempDir()
	if _, err := Import(t.Context(), c, "../testdata/journals/v0-chain.jsonl.zst", ""); err != nil {
		t.Fatal(err)
	}
	nothing, err := fsm.New(fsm.Config{}).Snapshot()
	must(t, err)
	for _, step := range []struct {
		save func(j *bus.Journal) error
		want string
	}{
		{func(*bus.Journal) error { return nil }, ""},
		{
			func(j *bus.Journal) error { return j.SaveSnapshot(t.Context(), j.Head(), nothing) },
			"the state after the same batches",
		},
		{func(j *bus.Journal) error {
			return j.SaveSnapshot(t.Context(), bus.Head{Seq: j.Head().Seq, Digest: chain.Digest{1}}, nothing)
		}, "as a snapshot says"},
	} {
		must(t, With(t.Context(), c, false, func(ctx context.Context, b *bus.Bus) error {
			if _, err := b.Journal().Replay(ctx, bus.Head{}, func(uint64, []byte) error { return nil }); err != nil {
				return err
			}
			return step.save(b.Journal())
		}))
		v, err := Verify(t.Context(), c)
		if err != nil || (len(v.Damages) == 1) != (step.want != "") || step.want != "" &&
			!strings.Contains(v.Damages[0].Want, step.want) {
			t.Errorf("want %q: %+v, %v", step.want, v.Damages, err)
		}
	}
}

// A report at the right sequence with another digest counts as missing, because its stream was replaced.
func TestAReportOfAnotherDigestIsNotRead(t *testing.T) {
	_, err := evidenceOf(fsm.ReportRef{Seq: 1, SHA256: strings.Repeat("0", 64)},
		func(uint64) (bus.StoredReport, error) {
			return bus.StoredReport{Data: []byte(`{"error_id":"e1","message":"another one"}`)}, nil
		})
	if !errors.Is(err, bus.ErrNoReport) {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
