package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/github/command"
)

// TaskCommands carries out operators' commands about one task. Its methods are safe for concurrent use.
type TaskCommands struct {
	Owner        *loop.Owner
	Repositories []string // as configured
	// Offer adds the task label to an issue. again allows this for an issue with finished work.
	Offer func(ctx context.Context, key fsm.IssueKey, by, id string, again bool) (status int, problem string)
}

// commandPatience limits the wait for a running effect on the issue, which must end before any other decision. If it
// takes longer, the client repeats the request.
const commandPatience = 3 * time.Second

// Messages that explain a missing answer.
const (
	NotWritten = "the director could not write the command to its journal: run director health for the cause, then " +
		"try again"
	TooBusy = "the director is too busy to answer: run director health for the cause, then try again"
)

// retryBusy is the pause before a busy command is offered again.
const retryBusy = 200 * time.Millisecond

// taskKey returns the issue in a request's path, spelled as in its task or in the configuration.
func (s *TaskCommands) taskKey(r *http.Request) (fsm.IssueKey, bool) {
	n, err := strconv.Atoi(r.PathValue("number"))
	repo := r.PathValue("owner") + "/" + r.PathValue("repo")
	for _, known := range s.Repositories {
		if strings.EqualFold(known, repo) {
			repo = known
		}
	}
	return fsm.IssueKey(fmt.Sprintf("%s#%d", repo, n)), err == nil && n > 0
}

// requester returns the user of the socket and, if given, the person behind the request.
func requester(r *http.Request, whom string) string {
	by := PeerOf(r.Context()) + " (operator)"
	if whom != "" {
		by += " for " + whom
	}
	return by
}

// postCommand carries out an operator's command about a task.
func (s *TaskCommands) postCommand(w http.ResponseWriter, r *http.Request) {
	var c operator.TaskCommand
	key, ok := s.taskKey(r)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&c); err != nil || !ok {
		operator.Respond(w, http.StatusBadRequest,
			operator.TaskAnswer{
				Problem: `want POST /tasks/owner/repo/12/commands with {"command": "retry", "text": "…", "id": "…"}`,
			})
		return
	}
	if err := operator.CheckRequester(c.By); c.By != "" && err != nil {
		operator.Respond(w, http.StatusBadRequest, operator.TaskAnswer{Problem: `"by": ` + err.Error()})
		return
	}
	status, a := s.Do(r.Context(), key, c, requester(r, c.By))
	operator.Respond(w, status, a)
}

// putTask offers an issue. Of concurrent requests for the same issue, only one adds the label.
func (s *TaskCommands) putTask(w http.ResponseWriter, r *http.Request) {
	var c operator.TaskCommand
	key, ok := s.taskKey(r)
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&c)
	if err != nil || !ok || c.By != "" && operator.CheckRequester(c.By) != nil || c.ID != "" &&
		!operator.RequestForm.MatchString(c.ID) {
		operator.Respond(w, http.StatusBadRequest,
			operator.TaskAnswer{Problem: `want PUT /tasks/owner/repo/12 with {"by": "…", "id": "…"} or {}`})
		return
	}
	by := requester(r, c.By)
	a := operator.TaskAnswer{Issue: string(key), Command: string(fsm.CommandAdd), By: by}
	status, problem := s.Offer(r.Context(), key, by, cmp.Or(c.ID, operator.NewRequestID()), c.Again)
	if a.Problem = problem; problem == "" {
		s.tell(r.Context(), &a)
	}
	operator.Respond(w, status, a)
}

// commandView parses a command using the grammar for comments. problem is an error message for the requester.
func commandView(c operator.TaskCommand, key fsm.IssueKey, by string) (v fsm.CommentView, problem string) {
	name := strings.ToLower(c.Command)
	if name == "release" { // the machine calls this command stop
		name = string(fsm.CommandStop)
	}
	argument := c.For
	if c.Amount != 0 {
		argument = strconv.Itoa(c.Amount)
	}
	a := command.Read("/agent "+name+" "+argument+"\n"+c.Text, "")
	switch a.Command {
	case command.None, command.Unknown, command.Why, command.Help:
		return v, fmt.Sprintf("unknown command %q: want retry, resume, fresh, fix, snooze, budget, stop or take",
			c.Command)
	}
	if argument != "" && a.For == 0 && a.Amount == 0 && a.Problem == "" {
		return v, name + " does not accept a time or number"
	}
	id := cmp.Or(c.ID, operator.NewRequestID())
	if !operator.RequestForm.MatchString(id) {
		return v, `"id": want 8 to 64 letters, digits, - and _`
	}
	return fsm.CommentView{
		Task: key, CommandRef: fsm.CommandRef{Request: id}, By: by, Command: fsm.Command(a.Command), Text: a.Rest,
		For: a.For, Amount: a.Amount,
	}, a.Problem
}

// Do makes the machine decide on a command, and returns when the decision is in the journal. by is the requester, as
// shown in the journal and on GitHub. The status is 200 if the command was carried out, 409 with the machine's reason
// if it was refused, 404 for an unknown task, 400 for an invalid command, and 503 if the director cannot decide now.
func (s *TaskCommands) Do(ctx context.Context, key fsm.IssueKey, c operator.TaskCommand,
	by string,
) (status int, a operator.TaskAnswer) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	a = operator.TaskAnswer{Issue: string(key), Command: c.Command, By: by}
	v, problem := commandView(c, key, by)
	if a.Problem = problem; problem != "" {
		return http.StatusBadRequest, a
	}
	a.Command = string(v.Command)
	switch known, err := s.tasksOwn(ctx, &v); {
	case known:
		a.Issue = string(v.Task)
	case err != nil:
		a.Problem = TooBusy
		return http.StatusServiceUnavailable, a
	default:
		a.Problem = "there is no task " + a.Issue + ": director tasks lists all tasks, director add " + a.Issue +
			" offers the issue"
		return http.StatusNotFound, a
	}
	refused, decided := s.Request(ctx, v)
	switch known := s.tell(ctx, &a); {
	case refused != "":
		a.Problem = refused
		return http.StatusConflict, a
	case decided:
		return http.StatusOK, a
	case !known:
		a.Problem = NotWritten
		return http.StatusServiceUnavailable, a
	}
	a.Problem, a.Busy = fmt.Sprintf("a request to GitHub about %s (%s) must finish first: try again in a few seconds",
		a.Issue, a.State), true
	return http.StatusConflict, a
}

// tasksOwn reports whether the machine has the task of a command, or has decided an earlier request with the same ID.
// Such a request may have ended the task. tasksOwn sets v.Task to the task's spelling of the issue.
func (s *TaskCommands) tasksOwn(ctx context.Context, v *fsm.CommentView) (bool, error) {
	key, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) fsm.IssueKey {
		if t := d.Machine().Task(v.Task); t != nil {
			return t.Key
		}
		if _, decided := d.Machine().Requested(v.Request); decided {
			return v.Task
		}
		return ""
	})
	if err == nil && key != "" {
		v.Task = key
	}
	return err == nil && key != "", err
}

// Request sends a command to the machine, and repeats it while an effect delays the decision. It returns when the
// decision is in the journal or ctx is done. refused is the machine's reason if it refused the command.
func (s *TaskCommands) Request(ctx context.Context, v fsm.CommentView) (refused string, decided bool) {
	type decision struct {
		refused string
		made    bool
	}
	for s.Owner.Decided(ctx, fsm.CommentsSeen{Comments: []fsm.CommentView{v}}) {
		d, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) decision {
			refused, made := d.Machine().Requested(v.Request)
			return decision{refused, made}
		})
		if err == nil && d.made { // another request may have made the decision, so wait until it is durable
			return d.refused, s.Owner.Decided(ctx, fsm.Tick{})
		}
		select {
		case <-time.After(retryBusy):
		case <-ctx.Done():
		}
	}
	return "", false
}

// tell adds the task's state to the answer. It returns false if the owner did not answer.
func (s *TaskCommands) tell(ctx context.Context, a *operator.TaskAnswer) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	now, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) wire.SnapshotTask {
		m := d.Machine()
		if t := m.Task(fsm.IssueKey(a.Issue)); t != nil {
			return viewTask(m, t, m.Now())
		}
		return wire.SnapshotTask{}
	})
	if a.State, a.WaitsFor = now.State, now.WaitsFor; now.NextDeadline != nil {
		a.Until = now.NextDeadline.Format(time.RFC3339)
	}
	return err == nil
}
