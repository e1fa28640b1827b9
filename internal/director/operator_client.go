package director

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// ErrNotThere: no director answers on the data directory.
var ErrNotThere = errors.New("director: nothing answers")

// String is one line for a person.
func (h Health) String() string {
	tasks := "1 task"
	if h.Tasks != 1 {
		tasks = fmt.Sprintf("%d tasks", h.Tasks)
	}
	if !h.OK {
		return fmt.Sprintf("not well: %s (%s, phase %s, %s)", cmp.Or(h.Problem, "it does not say why"), h.RunID, cmp.Or(h.Phase, "unknown"), tasks)
	}
	return fmt.Sprintf("well: %s, phase %s, %s", h.RunID, h.Phase, tasks)
}

// AskHealth asks the director that runs on a data directory how it is.
func AskHealth(ctx context.Context, dataDir string) (Health, error) {
	return ask[Health](ctx, dataDir, http.MethodGet, "/healthz")
}

// AskSnapshot asks it for its state.
func AskSnapshot(ctx context.Context, dataDir string) (wire.Snapshot, error) {
	return ask[wire.Snapshot](ctx, dataDir, http.MethodGet, "/snapshot")
}

// Say gives it a command. It returns when the command is in the journal.
func Say(ctx context.Context, dataDir string, c fsm.OperatorCommand) (Health, error) {
	return ask[Health](ctx, dataDir, http.MethodPost, "/"+string(c))
}

// ask sends one request over the operator's socket and reads the JSON that comes back.
func ask[T any](ctx context.Context, dataDir, method, path string) (answer T, err error) {
	socket := filepath.Join(dataDir, SocketName)
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://director"+path, nil)
	if err != nil {
		return answer, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer, fmt.Errorf("%w at %s: is a director running with this director.data_dir? (%w)", ErrNotThere, socket, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("director: answer to %s %s: %w", method, path, err)
	}
	return answer, nil
}
