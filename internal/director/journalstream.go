package director

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"retake/internal/bus"
	"retake/internal/bus/chain"
)

// streamEnd is the last line of a journal that is read over the operator's socket: without it the stream was cut.
type streamEnd struct {
	End     bool   `json:"end"`
	Batches uint64 `json:"batches"`
	Problem string `json:"problem,omitempty"` // why it ends before its end
}

// tellJournal answers with every record of the journal, archived and live, one line of JSON each. It reads
// beside the owner, which notices nothing of it.
func (s *session) tellJournal(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	out := bufio.NewWriterSize(w, 1<<16)
	end := streamEnd{End: true}
	err := eachBatch(r.Context(), s.bus.Journal(), func(data []byte) error {
		end.Batches++
		_, err := out.Write(data)
		if err == nil && !bytes.HasSuffix(data, []byte("\n")) {
			err = out.WriteByte('\n')
		}
		return err
	})
	if err != nil {
		end.Problem = err.Error()
	}
	line, err := json.Marshal(end)
	if err == nil {
		_, err = out.Write(append(line, '\n'))
	}
	_ = errors.Join(err, out.Flush()) // the reader is gone, or it is not
}

// eachBatch hands out every batch that there is.
func eachBatch(ctx context.Context, j *bus.Journal, take func(data []byte) error) error {
	begin, err := j.Begin(ctx)
	if err == nil {
		_, err = j.Records(ctx, begin, func(r chain.Record) error { return take(r.Data) })
	}
	return err
}

// tellReport answers with a stored report, by its sequence.
func (s *session) tellReport(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	stored, err := s.bus.StoredReport(r.Context(), seq)
	switch {
	case errors.Is(err, bus.ErrNoReport):
		respond(w, http.StatusNotFound, refusal{err.Error()})
	case err != nil:
		respond(w, http.StatusServiceUnavailable, refusal{err.Error()})
	default:
		respond(w, http.StatusOK, stored)
	}
}

// streamedBatches reads the journal of the director that runs on a data directory.
func streamedBatches(ctx context.Context, dataDir string, take func(data []byte) error) error {
	resp, err := question{method: http.MethodGet, path: "/journal"}.send(ctx, dataDir)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("director: the journal was cut while it was read; try again: %w", err)
		}
		if !bytes.HasPrefix(line, []byte(`{"end":`)) {
			if err := take(line); err != nil {
				return err
			}
			continue
		}
		var end streamEnd
		if err := json.Unmarshal(line, &end); err != nil {
			return fmt.Errorf("director: the journal's last line: %w", err)
		}
		if end.Problem != "" {
			return fmt.Errorf("director: the running director cannot read all of its journal: %s", end.Problem)
		}
		return nil
	}
}

// streamedReport asks it for a stored report.
func streamedReport(ctx context.Context, dataDir string, seq uint64) (bus.StoredReport, error) {
	r, err := ask[bus.StoredReport](ctx, dataDir, question{method: http.MethodGet, path: "/journal/reports/" +
		strconv.FormatUint(seq, 10)})
	if _, gone := refusedWith(err, http.StatusNotFound); gone {
		err = bus.ErrNoReport
	}
	return r, err
}
