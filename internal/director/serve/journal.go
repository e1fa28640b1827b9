package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/director/operator"
)

// Journal answers GET /journal with every record of the journal, archived and live, as one JSON object per line. It
// reads the journal itself, so it does not slow the owner down.
func Journal(j *bus.Journal) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/jsonl")
		out := bufio.NewWriterSize(w, 1<<16)
		end := operator.StreamEnd{End: true}
		err := eachBatch(r.Context(), j, func(data []byte) error {
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
		_ = errors.Join(err, out.Flush()) // a closed connection is not our error
	}
}

// eachBatch calls take for every batch of the journal.
func eachBatch(ctx context.Context, j *bus.Journal, take func(data []byte) error) error {
	begin, err := j.Begin(ctx)
	if err == nil {
		_, err = j.Records(ctx, begin, func(r chain.Record) error { return take(r.Data) })
	}
	return err
}

// Report answers GET /journal/reports/{seq} with the stored report that has this sequence number.
func Report(b *bus.Bus) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		stored, err := b.StoredReport(r.Context(), seq)
		switch {
		case errors.Is(err, bus.ErrNoReport):
			operator.Refuse(w, http.StatusNotFound, err.Error())
		case err != nil:
			operator.Refuse(w, http.StatusServiceUnavailable, err.Error())
		default:
			operator.Respond(w, http.StatusOK, stored)
		}
	}
}
