package wire

// CheckSize refuses a message over max bytes.
func CheckSize(data []byte, maxBytes int) error {
	if len(data) > maxBytes {
		return malformed(CauseOversized, "%d bytes: want at most %d", len(data), maxBytes)
	}
	return nil
}

// CheckSender holds a decoded message against the subject that it came on, which beats it: a worker that the body names
// must be the subject's, and the channel must carry the message's type.
func CheckSender(e Envelope, worker string, c Channel) error {
	row, _ := rowOf(e.Payload.MessageType())
	if row.Subject != (Subjects{}).slot(c) {
		return malformed(CauseWrongSubject, "%s on %s: want it on %s", row.Type, c, row.Subject)
	}
	if e.Sender.Role == RoleDirector && c != ChannelError { // the report of an exit is the director's
		return malformed(CauseForeignSender, "sender.role: a director says nothing on a worker's %s", c)
	}
	return checkIdentity(e, worker)
}

// CheckBudget holds a decoded request for the lease service against the operation that it came on and the worker that
// asked. Only workers ask.
func CheckBudget(e Envelope, worker, operation string) error {
	row, _ := rowOf(e.Payload.MessageType())
	if row.Subject != "budget."+operation {
		return malformed(CauseWrongSubject, "%s on budget.%s: want it on %s", row.Type, operation, row.Subject)
	}
	if e.Sender.Role != RoleWorker {
		return malformed(CauseForeignSender, "sender.role: want worker, got %s", brief(string(e.Sender.Role)))
	}
	return checkIdentity(e, worker)
}

// checkIdentity: whoever a message names must be the worker.
func checkIdentity(e Envelope, worker string) error {
	if e.Sender.Role == RoleWorker && e.Sender.ID != worker {
		return foreign("sender.id", e.Sender.ID, worker)
	}
	for _, claim := range claims(e.Payload) {
		if claim.id != "" && claim.id != worker {
			return foreign(claim.field, claim.id, worker)
		}
	}
	return nil
}

// slot is how the table writes a worker's subject.
func (Subjects) slot(c Channel) string { return "worker.<id>." + string(c) }

func foreign(field, got, want string) *Malformed {
	return malformed(CauseForeignSender, "%s: want %s as in the subject, got %s", field, want, brief(got))
}

// claim is one field in which a body says whose it is. The attempt id is the worker id.
type claim struct{ field, id string }

func claims(p Payload) []claim {
	switch v := p.(type) {
	case *WorkerError:
		return []claim{{"worker_id", v.WorkerID}, {"attempt_id", v.AttemptID}}
	case *WorkerResult:
		return []claim{{"attempt_id", v.AttemptID}}
	case *BudgetAcquire:
		return []claim{{"worker_id", v.WorkerID}}
	case *Hello:
		return []claim{{"worker.worker_id", v.Worker.WorkerID}, {"worker.attempt_id", v.Worker.AttemptID}}
	default:
		return nil
	}
}
