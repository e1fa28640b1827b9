package director

import (
	"context"
	"encoding/base64"

	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/secrets/leak"
)

// recording describes what is stored of an attempt's output, and which values must never be written.
func (d *daemon) recording(task fsm.IssueKey, worker string, attempt int) output.Recording {
	key := d.hub.Bus().AttemptKey(worker)
	values := append(d.environ.AllSecrets(), string(key), base64.StdEncoding.EncodeToString(key))
	for _, v := range d.known {
		values = append(values, v.Text)
	}
	if seed, err := d.hub.Bus().Seed(worker); err == nil { // fails if another director's key made the seed
		values = append(values, seed)
	}
	return output.Recording{
		Issue: string(task), ID: worker, N: attempt, Key: key,
		Secrets: leak.Redactor(values...), Mask: d.github.Redact,
		Source: func(ctx context.Context, take func(output.Chunk)) error {
			return d.runtime.FollowOutput(ctx, worker, func(p container.Printed) { take(output.Chunk(p)) })
		},
	}
}

// expectOutput tells the output store which tasks go on, and finishes the output of containers that are gone.
func (s *session) expectOutput(m *fsm.Machine, list []container.Status) {
	for _, t := range m.Tasks() {
		if !t.State.Info().Final {
			s.outputs.Expect(string(t.Key))
		}
	}
	var there []string
	for _, c := range list {
		there = append(there, c.AttemptID)
	}
	s.outputs.SealOthers(there)
}
