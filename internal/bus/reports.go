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

// Consumption of reports. Each request asks for a number of reports and bytes. At most twice that number of
// reports may await acknowledgement, which bounds the memory. A report without acknowledgement is delivered
// again after reportAckWait. That time is short, because a killed director leaves reports without
// acknowledgement and its successor needs them soon. A report delivered twice is recognized by its id.
const (
	reportsAhead     = 512
	reportBytesAhead = 8 << 20
	reportAckWait    = 5 * time.Second
	// pullBeat is the interval of the server's heartbeats on an idle request. A missing heartbeat reveals a restarted
	// server, which has forgotten the request.
	pullBeat = time.Second
)

// Report is a stored report from a worker, or from the operator on its behalf.
type Report struct {
	Worker   string       // from the subject; also the attempt id
	Seq      uint64       // in the reports stream
	SHA256   string       // of the message as stored, lower-case hex
	Received time.Time    // when the stream stored it
	Body     wire.Payload // *wire.WorkerError or *wire.WorkerResult
	Bare     bool         // the worker_error came without an envelope
	Signed   bool         // with the attempt's key; unsigned reports come from people and are never results
	Own      bool         // signed and written by the director
	Bytes    int          // of the message as stored
	Ack      func() error // tells the stream that the report was handled; nil from ReportsOf
}

// Reports are the workers' reports in their stream.
type Reports struct {
	js       jetstream.JetStream // in the account of reports
	stream   string
	replicas int
	subjects wire.Subjects
	writer   *link.Writer
	key      func(worker string) []byte // of its signatures, or nil
	dead     *deadLetters
	maxBytes int // of one message
	log      *zap.Logger
}

// Consume reads every report until ctx is done, and then returns nil. prepare runs concurrently on all cores. The
// functions it returns run one at a time, in the order of the stream. A report is delivered again until its Ack is
// called, so the caller must recognize duplicates by error_id. Unreadable reports become dead letters. If the server
// goes away or forgets the consumer, Consume waits.
func (r *Reports) Consume(ctx context.Context, prepare func(Report) (take func())) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		if served := r.serve(ctx, prepare); served {
			failures = 0
		}
		link.Pause(ctx, link.Backoff(failures))
	}
	return nil
}

// serve consumes until an error occurs or ctx is done. It reports whether anything worked before that.
func (r *Reports) serve(ctx context.Context, prepare func(Report) func()) (served bool) {
	consumer, err := r.consumer(ctx)
	began := time.Now()
	if err == nil {
		err = r.consume(ctx, consumer, prepare)
	}
	if ctx.Err() == nil {
		r.log.Warn("reports not read; retrying", zap.Error(err))
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
				default: // it is ending already
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

// consumer creates the consumer or updates the existing one with its name, so at most one exists.
func (r *Reports) consumer(ctx context.Context) (jetstream.Consumer, error) {
	return r.js.CreateOrUpdateConsumer(ctx, r.stream, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: reportAckWait, MaxDeliver: -1, MaxAckPending: 2 * reportsAhead, Replicas: r.replicas,
	})
}

// prepared does the order-independent part of handling a stored report.
func (r *Reports) prepared(ctx context.Context, m jetstream.Msg, prepare func(Report) func()) (take func() error) {
	meta, err := m.Metadata()
	if err != nil {
		return func() error { return err }
	}
	report, err := r.report(m.Subject(), m.Data(), meta.Sequence.Stream, meta.Timestamp)
	if err != nil {
		return func() error {
			if err := r.dead.report(ctx, err, m.Subject(), meta.Sequence.Stream, m.Data()); err != nil {
				return fmt.Errorf("dead letter: %w", err)
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

// Of returns every stored report of a worker after the sequence after, in the order of the stream, up to
// the stream's last one at the time of the call. It skips unreadable reports, which the consumer turns into
// dead letters. It does not read reports of other workers, because the server has an index of subjects.
func (r *Reports) Of(ctx context.Context, worker string, after uint64) ([]Report, error) {
	if err := wire.CheckID(worker); err != nil {
		return nil, err
	}
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return nil, fmt.Errorf("bus: reports of %s: %w", worker, err)
	}
	var all []Report
	for _, subject := range classReport.subjects(r.subjects, worker) {
		list, err := r.on(ctx, stream, subject, after)
		if err != nil {
			return nil, fmt.Errorf("bus: reports of %s: %w", worker, err)
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(x, y Report) int { return cmp.Compare(x.Seq, y.Seq) })
	return all, nil
}

// Unheard notifies the sender of a stored report that the worker has no attempt. It copies the report to the dead
// letters, and answers on the subject in HeaderAnswer.
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
		return fmt.Errorf("bus: report %d of %s, which has no attempt: %w", seq, worker, err)
	}
	return nil
}

// refuse notifies the sender that a report was ignored. The sender chooses the subject, which must be a person's inbox.
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

// Workers lists the workers that have stored reports, shorter names first.
func (r *Reports) Workers(ctx context.Context) ([]string, error) {
	stream, err := r.js.Stream(ctx, r.stream)
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(r.subjects.WorkerTree("*")))
	}
	if err != nil {
		return nil, fmt.Errorf("bus: list senders of reports: %w", err)
	}
	var all []string
	for subject := range info.State.Subjects {
		if worker, _, ok := r.subjects.ParseWorker(subject); ok {
			all = append(all, worker)
		}
	}
	// shorter first, so that attempt 10 comes after attempt 9
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

// Put stores a report by the director about a worker if its container ended without a report. It is signed and
// handled like a report by a worker. Within the stream's duplicate window, the same report is stored once. Tails are
// cut to fit.
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

// TakeSpooled stores a report that a worker wrote to its spool without an acknowledgement, as if it had come
// over the bus. A *wire.Malformed means that it is not from that worker and does not count. Within the stream's
// duplicate window, the same report is stored once. Quotas do not apply, so the caller bounds the amount.
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

// ErrNoReport reports that the stream has no report at a sequence, or has removed it.
var ErrNoReport = errors.New("bus: the report is no longer stored")

// StoredReport is a report as the stream stores it.
type StoredReport struct {
	Data     []byte    `json:"data"`
	Received time.Time `json:"received"`
}

// stored reads the report at a sequence of the stream.
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
		return StoredReport{}, fmt.Errorf("bus: report %d: %w", seq, err)
	}
	return StoredReport{Data: m.Data, Received: m.Time.UTC()}, nil
}
