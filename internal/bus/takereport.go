package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

func (i *intake) answer(g *gate, m *nats.Msg, a storedReport) {
	if m.Reply == "" || ownInbox(g.worker, m.Reply) != nil {
		return
	}
	data, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		i.bus.log.Warn("could not answer a report", zap.String("subject", m.Subject), zap.Error(err))
	}
}

// storedReport is the answer to a report. It has the fields of a JetStream acknowledgement, which NATS clients
// understand.
type storedReport struct {
	Stream    string         `json:"stream,omitempty"`
	Seq       uint64         `json:"seq,omitempty"`
	Duplicate bool           `json:"duplicate,omitempty"`
	Error     *reportRefusal `json:"error,omitempty"`
}

// reportRefusal tells the sender of a report why the report will never count.
type reportRefusal struct {
	Code        int    `json:"code"` // 400: unreadable, 404: no attempt, 429: over the quota
	Description string `json:"description"`
}

// ExitID returns the id of the director's report about a container that ended without sending a report. Workers must
// not use the ids returned by ExitID, OffenceID and DiskID.
func ExitID(worker string) string { return worker + "/exit" }

// OffenceID returns the id of the director's report about an Offence.
func OffenceID(worker string) string { return worker + "/offence" }

// DiskID returns the id of the director's report about an attempt that filled the disk.
func DiskID(worker string) string { return worker + "/disk" }

func reserved(worker, id string) bool {
	return id == ExitID(worker) || id == OffenceID(worker) || id == DiskID(worker)
}

// read checks a worker's report and returns its id. Every error is a *wire.Malformed.
func (r *Reports) read(worker string, m *nats.Msg) (id string, err error) {
	if m.Reply != "" {
		if err := ownInbox(worker, m.Reply); err != nil {
			return "", err
		}
	}
	return r.check(worker, m.Subject, m.Data)
}

// check checks that the worker itself signed a report, and returns the report's id. Every error is a *wire.Malformed.
func (r *Reports) check(worker, subject string, data []byte) (id string, err error) {
	_, e, err := readWorker(r.subjects, subject, data)
	if err != nil {
		return "", err
	}
	_, id = wire.ReportID(e.Payload)
	signed, err := wire.CheckSignature(e, r.key(worker), worker)
	switch {
	case err != nil:
	case !signed:
		err = &wire.Malformed{Cause: wire.CauseUnsigned, Detail: "missing signature: a worker must sign its reports"}
	case e.Sender.Role != wire.RoleWorker:
		err = &wire.Malformed{Cause: wire.CauseForeignSender, Detail: fmt.Sprintf("sender.role: want worker, got %s",
			e.Sender.Role)}
	case reserved(worker, id):
		err = &wire.Malformed{
			Cause:  wire.CauseForeignSender,
			Detail: fmt.Sprintf("error_id: %s is reserved for the director", id),
		}
	}
	return id, err
}

// store appends a report to the stream. A report repeated within the stream's duplicate window is stored only once.
func (r *Reports) store(ctx context.Context, subject, id string, data []byte) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, link.StoreTimeout)
	defer cancel()
	worker, _, _ := r.subjects.ParseWorker(subject)
	key := r.key(worker)
	if key == nil {
		return nil, errNoSecret
	}
	return r.js.PublishMsg(ctx, r.writer.To(worker, subject, data),
		jetstream.WithMsgID(wire.ReportMessageID(key, worker, id)))
}
