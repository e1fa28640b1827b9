package director

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"retake/internal/fsm"
)

// SocketName is the operator's door in the data directory: HTTP on a Unix socket. Who may open it is the file system's
// business.
const SocketName = "director.sock"

// Health is what /healthz answers, with status 200 if OK and 503 if not.
type Health struct {
	OK      bool   `json:"ok"`
	RunID   string `json:"run_id"`
	Phase   string `json:"phase"`
	Tasks   int    `json:"tasks"`
	Problem string `json:"problem,omitempty"`
}

// openDoor begins to listen.
func (s *session) openDoor(ctx context.Context) (net.Listener, error) {
	path := filepath.Join(s.config.Director.DataDir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("director: old operator socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("director: operator socket (director.data_dir may be too long a path, 90 bytes are safe): %w", err)
	}
	return listener, nil
}

// serveOperator answers on the socket until ctx ends.
func (s *session) serveOperator(ctx context.Context, door net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		h := s.health(r.Context())
		status := http.StatusOK
		if !h.OK {
			status = http.StatusServiceUnavailable
		}
		respond(w, status, h)
	})
	mux.HandleFunc("GET /snapshot", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, s.snapshot(r.Context()))
	})
	mux.HandleFunc("POST /{command}", s.operate)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nobody waits for an answer that the end interrupts
	defer stop()
	if err := server.Serve(door); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("director: operator socket: %w", err)
	}
	return nil
}

// commands are what the operator may post.
var commands = map[string]fsm.OperatorCommand{"pause": fsm.Pause, "resume": fsm.Resume, "drain": fsm.Drain}

// operate tells the machine, and answers when the decision is in the journal.
func (s *session) operate(w http.ResponseWriter, r *http.Request) {
	command, ok := commands[r.PathValue("command")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	durable := make(chan struct{})
	s.owner.tell(r.Context(), fsm.OperatorSaid{Command: command}, func() { close(durable) })
	select {
	case <-durable:
		respond(w, http.StatusOK, s.health(r.Context()))
	case <-s.owner.done:
	case <-r.Context().Done():
	}
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone, or it is not
}

func (s *session) health(ctx context.Context) Health {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	h := Health{RunID: s.runID}
	err := s.owner.read(ctx, func(m *fsm.Machine) { h.Phase, h.Tasks = string(m.Phase()), len(m.Tasks()) })
	switch {
	case err != nil:
		h.Problem = "the owner of the machine does not answer: " + err.Error()
	case !s.bus.Connected():
		h.Problem = "the agent bus is not connected"
	default:
		h.OK = true
	}
	return h
}
