package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// unknownAttacks come from workers and containers without an attempt. Each answer to one of them writes a fact.
var unknownAttacks = []attack{
	{
		name: "1,500 unknown containers", kind: onBus,
		does:   "1,500 containers of the fleet without an attempt, which cannot be removed, for 30 s of lists",
		holds:  "at most two facts for each of 1,024 containers; a newcomer starts",
		before: "succeeded with 257: 120,000 facts in ten minutes",
		run: func(b *battle) error {
			const n, most = 1500, 2 * 1024
			files := make([]string, 0, 2*n)
			defer func() {
				for _, f := range files {
					_ = os.Remove(f)
				}
			}()
			before, err := b.answers()
			for i := range n {
				one := filepath.Join(b.settings.Played, fmt.Sprintf("unknown%d-1", i))
				files = append(files, one+".exit", one+".json")
				err = errors.Join(err, os.WriteFile(one+".exit", []byte("no number"), 0o600),
					os.WriteFile(one+".json", nil, 0o600))
			}
			if err != nil {
				return err
			}
			time.Sleep(30 * time.Second)
			return errors.Join(b.answered(before, 500, most), b.newcomer())
		},
	},
	{
		name: "2,000 reports about no worker", kind: onBus,
		does:   "a person's credential reports 2,000 failures of workers that never existed",
		holds:  "about a hundred facts and answers; a newcomer starts",
		before: "succeeded: a fact for each report",
		run: func(b *battle) error {
			t, err := b.stealPerson()
			if err != nil {
				return err
			}
			defer t.Close()
			before, err := b.answers()
			if err != nil {
				return err
			}
			began := time.Now()
			for i := range 2000 {
				id := fmt.Sprintf("never%d-1", i)
				e := b.me.failure(fmt.Sprintf("unheard%d", i), "no such worker")
				e.WorkerID, e.AttemptID = id, id
				data, err := wire.Encode(wire.Sender{Role: wire.RoleOperator, ID: person}, 1, time.Now(), e)
				if err != nil {
					return err
				}
				if err := t.Publish(subjects(b.me).Worker(id, wire.ChannelError), data); err != nil {
					return err
				}
			}
			if err := t.FlushTimeout(10 * time.Second); err != nil {
				return err
			}
			time.Sleep(5 * time.Second)
			return errors.Join(b.answered(before, 20, 110+int(time.Since(began)/(10*time.Second))), b.newcomer())
		},
	},
}

// answers counts the journal's facts about workers without an attempt.
func (b *battle) answers() (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = operator.AskJournal(ctx, b.data(), func(data []byte) error {
		n += bytes.Count(data, []byte(`"worker_answered"`))
		return nil
	})
	return n, err
}

// answered checks the number of answers since before.
func (b *battle) answered(before, least, most int) error {
	now, err := b.answers()
	b.note("%d facts", now-before)
	switch n := now - before; {
	case err != nil:
		return err
	case n < least:
		return fmt.Errorf("the attack was not made: %d facts", n)
	case n > most:
		return fmt.Errorf("%d facts, want at most %d", n, most)
	}
	return nil
}
