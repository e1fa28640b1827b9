package serve

import (
	"net/http"

	"retake/internal/bus"
	"retake/internal/director/operator"
	"retake/internal/output"
)

// Session has the handlers for the operator's socket during a session.
type Session struct {
	Status       *Status
	Timelines    *Timelines
	Commands     *Commands
	TaskCommands *TaskCommands
	Bus          *bus.Bus
	Outputs      *output.Store
	Whole        *WholeJournal
	Reload       http.HandlerFunc
}

// Mux returns the routes of a session.
func (s Session) Mux() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET " + operator.HealthPath:                   s.Status.serveHealth,
		"GET " + operator.ReadyPath:                    s.Status.live,
		"GET " + operator.LivePath:                     s.Status.live,
		"GET /snapshot":                                s.Status.serveSnapshot,
		"GET /tasks":                                   s.Timelines.listTasks,
		"GET /tasks/{owner}/{repo}/{number}/story":     s.Timelines.tellTask,
		"GET /events":                                  s.Timelines.listEvents,
		"GET /journal":                                 Journal(s.Bus.Journal()),
		"GET /journal/reports/{seq}":                   Report(s.Bus),
		"GET " + operator.VerificationPath:             s.Whole.verify,
		"GET " + operator.ExportPath:                   s.Whole.export,
		"GET /tasks/{owner}/{repo}/{number}/output":    Output(s.Outputs),
		"POST /{command}":                              s.Commands.operate,
		"POST /reload":                                 s.Reload,
		"POST /budget/reset":                           s.Commands.resetBudget,
		"POST /cooldown/lift":                          s.Commands.liftCooldowns,
		"POST /tasks/{owner}/{repo}/{number}/commands": s.TaskCommands.postCommand,
		"PUT /tasks/{owner}/{repo}/{number}":           s.TaskCommands.putTask,
	} {
		mux.HandleFunc(pattern, handler)
	}
	return mux
}
