package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"retake/internal/bus"
)

// AskJournal reads the journal of a running director. take receives each batch.
func AskJournal(ctx context.Context, dataDir string, take func(data []byte) error) error {
	resp, err := question{method: http.MethodGet, path: "/journal"}.send(ctx, dataDir)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("director: the journal stream ended early; try again: %w", err)
		}
		if !bytes.HasPrefix(line, []byte(`{"end":`)) {
			if err := take(line); err != nil {
				return err
			}
			continue
		}
		var end StreamEnd
		if err := json.Unmarshal(line, &end); err != nil {
			return fmt.Errorf("director: parse the journal's last line: %w", err)
		}
		if end.Problem != "" {
			return fmt.Errorf("director: the running director cannot read all of its journal: %s", end.Problem)
		}
		return nil
	}
}

// AskVerification makes the director verify its journal, which takes as long as reading it.
func AskVerification(ctx context.Context, dataDir string) (v bus.Verification, err error) {
	resp, err := question{method: http.MethodGet, path: VerificationPath}.send(ctx, dataDir)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		return v, fmt.Errorf("director: the verification was interrupted: %w", err)
	}
	return v, nil
}

// AskExport asks the director for an export of its journal, and writes it to a writer. It returns bus.ErrDamaged if the
// journal is damaged. The caller must check that the copy is complete.
func AskExport(ctx context.Context, dataDir string, to io.Writer) error {
	resp, err := question{method: http.MethodGet, path: ExportPath}.send(ctx, dataDir)
	if problem, ok := refusedWith(err, http.StatusUnprocessableEntity); ok {
		return fmt.Errorf("%w: %s", bus.ErrDamaged, problem)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		return fmt.Errorf("director: the export was interrupted: %w", err)
	}
	return nil
}

// AskReport asks the director for a stored report.
func AskReport(ctx context.Context, dataDir string, seq uint64) (bus.StoredReport, error) {
	r, err := ask[bus.StoredReport](ctx, dataDir, question{method: http.MethodGet, path: "/journal/reports/" +
		strconv.FormatUint(seq, 10)})
	if _, gone := refusedWith(err, http.StatusNotFound); gone {
		err = bus.ErrNoReport
	}
	return r, err
}
