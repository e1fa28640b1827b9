package bus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// Limits on the report consumer. Each request asks for at most reportsAhead reports and reportBytesAhead bytes. To
// limit memory, at most 2*reportsAhead reports may await acknowledgement. The stream redelivers a report that is not
// acknowledged within reportAckWait, which is short because the successor of a killed director needs these reports
// soon. Readers recognize a redelivered report by its id.
const (
	reportsAhead     = 512
	reportBytesAhead = 8 << 20
	reportAckWait    = 5 * time.Second
	// pullBeat is the interval between the server's heartbeats on an idle request. A missing heartbeat means that the
	// server restarted and lost the request.
	pullBeat = time.Second
)

// Report is a stored report from a worker, or from the operator on its behalf.
type Report struct {
	Worker   string       // worker in the subject; also the attempt id
	Seq      uint64       // sequence in the reports stream
	SHA256   string       // digest of the stored message, in lower-case hex
	Received time.Time    // when the stream stored it
	Body     wire.Payload // *wire.WorkerError or *wire.WorkerResult
	Bare     bool         // set if the worker_error came without an envelope
	Signed   bool         // signed with the attempt's key; an operator's report is unsigned and cannot be a result
	Own      bool         // set if the director wrote and signed it
	Bytes    int          // length of the stored message
	Ack      func() error // tells the stream that the report was handled; nil in results of Of
}

// Reports reads and writes the stream of the workers' reports.
type Reports struct {
	js       jetstream.JetStream // connected to the reports account
	stream   string
	replicas int
	subjects wire.Subjects
	writer   *link.Writer
	key      func(worker string) []byte // returns the key for a worker's signatures, or nil if unknown
	dead     *deadLetters
	maxBytes int // maximum size of one message
	log      *zap.Logger
}

// Consume reads every report until ctx is done, and then returns nil. It calls prepare concurrently on all cores, and
// calls the returned functions one at a time, in the order of the stream. The stream redelivers a report until its Ack
// is called, so the caller must recognize duplicates by error_id. Unreadable reports become dead letters. If the server
// stops or forgets the consumer, Consume waits and retries.
func (r *Reports) Consume(ctx context.Context, prepare func(Report) (take func())) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		if served := r.serve(ctx, prepare); served {
			failures = 0
		}
		link.Pause(ctx, link.Backoff(failures))
	}
	return nil
}

// serve consumes reports until an error occurs or ctx is done. It reports whether it ran long enough for the caller to
// reset its backoff.
func (r *Reports) serve(ctx context.Context, prepare func(Report) func()) (served bool) {
	consumer, err := r.consumer(ctx)
	began := time.Now()
	if err == nil {
		err = r.consume(ctx, consumer, prepare)
	}
	if ctx.Err() == nil {
		r.log.Warn("could not read reports; retrying", zap.Error(err))
	}
	return time.Since(began) > pullBeat
}

func (r *Reports) consume(ctx context.Context, consumer jetstream.Consumer, prepare func(Report) func()) error {
	return inOrder(ctx, 2*reportsAhead, func(ctx context.Context, put func(jetstream.Msg)) error {
		failed := make(chan error, 1)
		consuming, err := consumer.Consume(put, jetstream.PullMaxMessagesWithBytesLimit(reportsAhead, reportBytesAhead),
			jetstream.PullHeartbeat(pullBeat),
			jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
				select {
				case failed <- err:
				default: // the consumer is already ending
				}
			}))
		if err != nil {
			return err
		}
		defer func() { <-consuming.Closed() }()
		defer consuming.Stop()
		select {
		case err = <-failed:
		case <-consuming.Closed():
			err = jetstream.ErrConsumerDeleted
		case <-ctx.Done():
		}
		return err
	}, func(m jetstream.Msg) func() error { return r.prepared(ctx, m, prepare) })
}

// consumer creates the director's consumer or updates the existing one, so that at most one exists.
func (r *Reports) consumer(ctx context.Context) (jetstream.Consumer, error) {
	return r.js.CreateOrUpdateConsumer(ctx, r.stream, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: reportAckWait, MaxDeliver: -1, MaxAckPending: 2 * reportsAhead, Replicas: r.replicas,
	})
}

// prepared checks and decodes a stored report. It may run concurrently and in any order. The returned function must
// run in the order of the stream.
func (r *Reports) prepared(ctx context.Context, m jetstream.Msg, prepare func(Report) func()) (take func() error) {
	meta, err := m.Metadata()
	if err != nil {
		return func() error { return err }
	}
	report, err := r.report(m.Subject(), m.Data(), meta.Sequence.Stream, meta.Timestamp)
	if err != nil {
		return func() error {
			if err := r.dead.report(ctx, err, m.Subject(), meta.Sequence.Stream, m.Data()); err != nil {
				return fmt.Errorf("store dead letter: %w", err)
			}
			return m.Ack()
		}
	}
	report.Ack = m.Ack
	prepared := prepare(report)
	return func() error {
		prepared()
		return nil
	}
}

func (r *Reports) report(subject string, data []byte, seq uint64, at time.Time) (Report, error) {
	worker, e, err := readWorker(r.subjects, subject, data)
	if err != nil {
		return Report{}, err
	}
	signed, err := wire.CheckSignature(e, r.key(worker), worker)
	if err != nil {
		return Report{}, err
	}
	sum := sha256.Sum256(data)
	return Report{
		Worker: worker, Seq: seq, SHA256: hex.EncodeToString(sum[:]), Received: at.UTC(), Body: e.Payload, Bare: e.Bare,
		Signed: signed, Own: signed && e.Sender.Role == wire.RoleDirector, Bytes: len(data),
	}, nil
}

// Of returns a worker's reports with a sequence above after, as stored at the time of the call, in stream order. It
// skips unreadable reports, because Consume turns them into dead letters. The cost does not depend on other workers'
// reports, because the server indexes subjects.
func (r *Reports) Of(ctx context.Context, worker string, after uint64) ([]Report, error) {
	if err := wire.CheckID(worker); err != nil {
		return nil, err
	}
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return nil, fmt.Errorf("bus: read reports from %s: %w", worker, err)
	}
	var all []Report
	for _, subject := range classReport.subjects(r.subjects, worker) {
		list, err := r.on(ctx, stream, subject, after)
		if err != nil {
			return nil, fmt.Errorf("bus: read reports from %s: %w", worker, err)
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(x, y Report) int { return cmp.Compare(x.Seq, y.Seq) })
	return all, nil
}

// Unheard tells the sender of a stored report that the worker has no attempt. It copies the report to the dead letters,
// and answers on the subject in HeaderAnswer.
func (r *Reports) Unheard(ctx context.Context, worker string, seq uint64) error {
	stream, err := r.js.Stream(ctx, r.stream)
	var m *jetstream.RawStreamMsg
	if err == nil {
		m, err = stream.GetMsg(ctx, seq)
	}
	if err == nil {
		detail := "worker_id: " + worker + " has no running attempt, so the report has no effect"
		reason := &wire.Malformed{Cause: wire.CauseNoAttempt, Detail: detail}
		err = errors.Join(r.dead.report(ctx, reason, m.Subject, seq, m.Data),
			r.refuse(m.Header.Get(HeaderAnswer), detail))
	}
	if err != nil {
		return fmt.Errorf("bus: reject report %d from %s, which has no attempt: %w", seq, worker, err)
	}
	return nil
}

// refuse tells the sender that a report was ignored. It publishes only on subjects below _INBOX, because the sender
// chooses the subject.
func (r *Reports) refuse(to, detail string) error {
	if !strings.HasPrefix(to, nats.InboxPrefix) || strings.ContainsAny(to, "*> \t\r\n") {
		return nil
	}
	data, err := json.Marshal(storedReport{Error: &reportRefusal{Code: 404, Description: detail}})
	if err != nil {
		return err
	}
	return r.js.Conn().Publish(to, data)
}

// Workers lists the workers that have stored reports, ordered by the length of their ids.
func (r *Reports) Workers(ctx context.Context) ([]string, error) {
	stream, err := r.js.Stream(ctx, r.stream)
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(r.subjects.WorkerTree("*")))
	}
	if err != nil {
		return nil, fmt.Errorf("bus: list report senders: %w", err)
	}
	var all []string
	for subject := range info.State.Subjects {
		if worker, _, ok := r.subjects.ParseWorker(subject); ok {
			all = append(all, worker)
		}
	}
	// Shorter ids come first, so that attempt 10 comes after attempt 9.
	slices.SortFunc(all, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	return slices.Compact(all), nil
}

func (r *Reports) on(ctx context.Context, stream jetstream.Stream, subject string,
	after uint64,
) (all []Report, err error) {
	last := stream.CachedInfo().State.LastSeq
	for seq := after + 1; seq <= last; seq++ {
		m, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		if seq = m.Sequence; seq > last {
			break
		}
		if one, err := r.report(m.Subject, m.Data, m.Sequence, m.Time); err == nil {
			all = append(all, one)
		}
	}
	return all, nil
}

// Put stores a report that the director itself writes about a worker, for example because the worker's container ended
// without sending one. It signs the report with the worker's key, and shortens it to the maximum message size.
// Repeating a call within the stream's duplicate window does not store a second report.
func (r *Reports) Put(ctx context.Context, worker string, e wire.WorkerError) error {
	if err := wire.CheckID(worker); err != nil {
		return err
	}
	from := r.writer.From
	from.Key = r.key(worker)
	data, err := wire.EncodeWithin(from, r.writer.Next(), time.Now(), &e, r.maxBytes)
	if err != nil {
		return err
	}
	_, err = r.store(ctx, r.subjects.Worker(worker, wire.ChannelError), e.ErrorID, data)
	return link.NoAnswer(err)
}

// TakeSpooled stores a report that a worker left in its spool, as if the worker had sent it over the bus. A
// *wire.Malformed means that the report is unreadable or that the worker did not sign it. Repeating a call within the
// stream's duplicate window does not store a second report. Quotas do not apply, so the caller must limit the number
// and size of these reports.
func (r *Reports) TakeSpooled(ctx context.Context, worker string, data []byte) error {
	if err := wire.CheckID(worker); err != nil {
		return err
	}
	if err := wire.CheckSize(data); err != nil {
		return err
	}
	e, err := wire.Decode(data)
	if err != nil {
		return err
	}
	channel, id := wire.ReportID(e.Payload)
	if id == "" {
		return &wire.Malformed{Cause: wire.CauseWrongSubject, Detail: e.Payload.MessageType() + " is not a report"}
	}
	subject := r.subjects.Worker(worker, channel)
	if id, err = r.check(worker, subject, data); err != nil {
		return err
	}
	_, err = r.store(ctx, subject, id, data)
	return link.NoAnswer(err)
}

// ErrNoReport means that the stream never had a report at the given sequence, or has removed it.
var ErrNoReport = errors.New("bus: the report is no longer stored")

// StoredReport is a report as stored in the stream.
type StoredReport struct {
	Data     []byte    `json:"data"`
	Received time.Time `json:"received"`
}

// stored reads the report at a sequence of the stream. It returns ErrNoReport if the report is missing.
func (r *Reports) stored(ctx context.Context, seq uint64) (StoredReport, error) {
	stream, err := r.js.Stream(ctx, r.stream)
	var m *jetstream.RawStreamMsg
	if err == nil {
		m, err = stream.GetMsg(ctx, seq)
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return StoredReport{}, ErrNoReport
	case err != nil:
		return StoredReport{}, fmt.Errorf("bus: read report %d: %w", seq, err)
	}
	return StoredReport{Data: m.Data, Received: m.Time.UTC()}, nil
}
