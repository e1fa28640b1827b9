package wire

// LongestMessage is the largest allowed value of agent_bus.max_message_bytes.
const LongestMessage = 1 << 20

// CheckSize rejects a message that is too long for any configuration. It does not check agent_bus.max_message_bytes,
// because the limit may have been higher when the worker started. The server enforces the limit in the worker's
// credential.
func CheckSize(data []byte) error {
	if len(data) > LongestMessage {
		return malformed(CauseOversized, "%d bytes: want at most %d", len(data), LongestMessage)
	}
	return nil
}

// CheckSender checks a decoded message against its subject, which the sender cannot forge. Every worker id in the body
// must match the subject, and the message type must belong on the channel.
func CheckSender(e Envelope, worker string, c Channel) error {
	if e.Sender.Role == RoleDirector && c != ChannelError { // the director itself reports exits, for example
		return malformed(CauseForeignSender, "sender.role: a director must not publish on a worker's %s channel", c)
	}
	return checkBody(e, worker, "worker.<id>."+string(c))
}

// CheckBudget checks a decoded request for the lease service against the operation and the worker in its subject. Only
// workers may send such requests.
func CheckBudget(e Envelope, worker, operation string) error {
	if e.Sender.Role != RoleWorker {
		return malformed(CauseForeignSender, "sender.role: want worker, got %s", brief(string(e.Sender.Role)))
	}
	return checkBody(e, worker, "budget."+operation+".<id>")
}

// CheckCheckpoint checks that the worker in the subject sent a decoded message and signed it with key.
func CheckCheckpoint(e Envelope, key []byte, worker string) error {
	if e.Sender.Role != RoleWorker {
		return malformed(CauseForeignSender, "sender.role: want worker, got %s", brief(string(e.Sender.Role)))
	}
	if err := checkBody(e, worker, "checkout."+CheckoutOpSave+".<id>"); err != nil {
		return err
	}
	_, err := CheckSignature(e, key, worker)
	return err
}

// checkBody checks that the message type belongs on the subject, and that every worker id in the message matches the
// subject.
func checkBody(e Envelope, worker, subject string) error {
	if row, _ := rowOf(e.Payload.MessageType()); row.Subject != subject {
		return malformed(CauseWrongSubject, "%s on %s: want it on %s", row.Type, subject, row.Subject)
	}
	ids := bodyIDs(e.Payload)
	if e.Sender.Role == RoleWorker {
		ids = append(ids, bodyID{"sender.id", e.Sender.ID})
	}
	for _, body := range ids {
		if body.id != "" && body.id != worker {
			return malformed(CauseForeignSender, "%s: want %s as in the subject, got %s", body.field, worker,
				brief(body.id))
		}
	}
	return nil
}

// bodyID is one body field that contains a worker's id. An attempt and its worker have the same id.
type bodyID struct{ field, id string }

func bodyIDs(p Payload) []bodyID {
	switch v := p.(type) {
	case *WorkerError:
		return []bodyID{{"worker_id", v.WorkerID}, {"attempt_id", v.AttemptID}}
	case *WorkerResult:
		return []bodyID{{"attempt_id", v.AttemptID}}
	case *BudgetAcquire:
		return []bodyID{{"worker_id", v.WorkerID}}
	case *Checkpoint:
		return []bodyID{{"attempt_id", v.AttemptID}}
	case *Hello:
		return []bodyID{{"worker.worker_id", v.Worker.WorkerID}, {"worker.attempt_id", v.Worker.AttemptID}}
	default:
		return nil
	}
}

// ReportID returns the channel of a report, and the error_id or result_id that identifies duplicates. Both are empty
// for other messages.
func ReportID(p Payload) (Channel, string) {
	switch v := p.(type) {
	case *WorkerError:
		return ChannelError, v.ErrorID
	case *WorkerResult:
		return ChannelResult, v.ResultID
	default:
		return "", ""
	}
}
