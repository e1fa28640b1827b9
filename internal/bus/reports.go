package bus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// Consumption of reports. Each request is for so many reports or bytes; twice as many reports may wait for
// their acknowledgement, which is what bounds the memory. One that waits for longer than reportAckWait comes
// again. That time is short: a director that was killed has read reports that nobody acknowledges, and its
// successor wants them soon; a report that comes twice is known by its id.
const (
	reportsAhead     = 512
	reportBytesAhead = 8 << 20
	reportAckWait    = 5 * time.Second
	// the server's sign of life on an empty stream: a restarted one has forgotten the request
	pullBeat = time.Second
)

// Report is one stored report of a worker (or of the operator for it).
type Report struct {
	Worker   string       // as in the subject; also the attempt id
	Seq      uint64       // in the reports stream
	SHA256   string       // of the message as stored, lower-case hex
	Received time.Time    // when the stream stored it
	Body     wire.Payload // *wire.WorkerError or *wire.WorkerResult
	Bare     bool         // the worker_error came without an envelope
	Signed   bool         // with the attempt's key; false: a person's word, and no result
	Own      bool         // signed, and the director wrote it
	Bytes    int          // of the message as stored
	Ack      func() error // tells the stream that it is dealt with; nil from ReportsOf
}

// ConsumeReports reads every report until ctx ends; it returns nil then. prepare is called for several at once,
// on all cores; what it returns is called in the order of the stream, one after the other. A report comes again
// until its Ack was called: whoever takes it knows duplicates by their error_id. What cannot be read goes to
// the dead letters. A server that goes away, or forgets the consumer, is waited for.
func (b *Bus) ConsumeReports(ctx context.Context, prepare func(Report) (take func())) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		if served := b.serveReports(ctx, prepare); served {
			failures = 0
		}
		pause(ctx, backoff(failures))
	}
	return nil
}

// serveReports consumes until something fails or ctx ends; it reports whether anything worked before.
func (b *Bus) serveReports(ctx context.Context, prepare func(Report) func()) (served bool) {
	consumer, err := b.reportConsumer(ctx)
	began := time.Now()
	if err == nil {
		err = b.consume(ctx, consumer, prepare)
	}
	if ctx.Err() == nil {
		b.log.Warn("reports cannot be read, trying again", zap.Error(err))
	}
	return time.Since(began) > pullBeat
}

func (b *Bus) consume(ctx context.Context, consumer jetstream.Consumer, prepare func(Report) func()) error {
	return inOrder(ctx, 2*reportsAhead, func(ctx context.Context, put func(jetstream.Msg)) error {
		failed := make(chan error, 1)
		consuming, err := consumer.Consume(put, jetstream.PullMaxMessagesWithBytesLimit(reportsAhead, reportBytesAhead),
			jetstream.PullHeartbeat(pullBeat),
			jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
				select {
				case failed <- err:
				default: // it ends already
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
	}, func(m jetstream.Msg) func() error { return b.prepareReport(ctx, m, prepare) })
}

// reportConsumer finds the consumer by its name, or makes it: there is never more than one.
func (b *Bus) reportConsumer(ctx context.Context) (jetstream.Consumer, error) {
	return b.reports.CreateOrUpdateConsumer(ctx, b.reportsStream(), jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: reportAckWait, MaxDeliver: -1, MaxAckPending: 2 * reportsAhead, Replicas: b.options.Replicas,
	})
}

// prepareReport does with a stored report whatever needs no order.
func (b *Bus) prepareReport(ctx context.Context, m jetstream.Msg, prepare func(Report) func()) (take func() error) {
	meta, err := m.Metadata()
	if err != nil {
		return func() error { return err }
	}
	report, err := b.report(m.Subject(), m.Data(), meta.Sequence.Stream, meta.Timestamp)
	if err != nil {
		return func() error {
			if err := b.dead.report(ctx, err, m.Subject(), meta.Sequence.Stream, m.Data()); err != nil {
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

func (b *Bus) report(subject string, data []byte, seq uint64, at time.Time) (Report, error) {
	worker, e, err := b.read(subject, data)
	if err != nil {
		return Report{}, err
	}
	signed, err := wire.CheckSignature(e, b.AttemptKey(worker), worker)
	if err != nil {
		return Report{}, err
	}
	sum := sha256.Sum256(data)
	return Report{
		Worker: worker, Seq: seq, SHA256: hex.EncodeToString(sum[:]), Received: at.UTC(), Body: e.Payload, Bare: e.Bare,
		Signed: signed, Own: signed && e.Sender.Role == wire.RoleDirector, Bytes: len(data),
	}, nil
}

// ReportsOf returns every stored report of a worker behind the sequence after (0: all), in the order of the
// stream, up to the stream's last one at the time of the call. What cannot be read is left out: the consumer
// keeps it as a dead letter. Nothing is read of what others wrote: the server finds a subject's messages by its
// index.
func (b *Bus) ReportsOf(ctx context.Context, worker string, after uint64) ([]Report, error) {
	if err := wire.CheckID(worker); err != nil {
		return nil, err
	}
	stream, err := b.reports.Stream(ctx, b.reportsStream())
	if err != nil {
		return nil, fmt.Errorf("bus: reports of %s: %w", worker, err)
	}
	var all []Report
	for _, subject := range b.lineSubjects(lineReport, worker) {
		list, err := b.reportsOn(ctx, stream, subject, after)
		if err != nil {
			return nil, fmt.Errorf("bus: reports of %s: %w", worker, err)
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(x, y Report) int { return cmp.Compare(x.Seq, y.Seq) })
	return all, nil
}

// Reporters lists the workers that have stored reports, shorter names first.
func (b *Bus) Reporters(ctx context.Context) ([]string, error) {
	stream, err := b.reports.Stream(ctx, b.reportsStream())
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(b.subjects.WorkerTree("*")))
	}
	if err != nil {
		return nil, fmt.Errorf("bus: who has reported: %w", err)
	}
	var all []string
	for subject := range info.State.Subjects {
		if worker, _, ok := b.subjects.ParseWorker(subject); ok {
			all = append(all, worker)
		}
	}
	// attempt 10 after 9
	slices.SortFunc(all, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	return slices.Compact(all), nil
}

func (b *Bus) reportsOn(ctx context.Context, stream jetstream.Stream, subject string,
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
		if r, err := b.report(m.Subject, m.Data, m.Sequence, m.Time); err == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// Report stores the report that a worker did not write: its container ended, and the director writes how. It
// goes the way of every report, signed as the worker's are. The same one twice is stored once, within the
// stream's duplicate window. Tails are cut to fit.
func (b *Bus) Report(ctx context.Context, worker string, e wire.WorkerError) error {
	if err := wire.CheckID(worker); err != nil {
		return err
	}
	from := b.from()
	from.Key = b.AttemptKey(worker)
	data, err := wire.EncodeWithin(from, b.seq.Add(1), time.Now(), &e, b.options.MaxMessageBytes)
	if err != nil {
		return err
	}
	_, err = b.store(ctx, b.subjects.Worker(worker, wire.ChannelError), e.ErrorID, data)
	return noAnswer(err)
}

// TakeSpooled stores a report that a worker wrote down and nobody acknowledged, as if it came over the bus. A
// *wire.Malformed: it is not that worker's own report, so it does not count. The same one twice is stored once,
// within the stream's duplicate window. Quotas do not apply: the caller bounds what it reads.
func (b *Bus) TakeSpooled(ctx context.Context, worker string, data []byte) error {
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
	subject := b.subjects.Worker(worker, channel)
	if id, err = b.checkReport(worker, subject, data); err != nil {
		return err
	}
	_, err = b.store(ctx, subject, id, data)
	return noAnswer(err)
}

// ErrNoReport: the stream has no report at a sequence, or not any more.
var ErrNoReport = errors.New("bus: the report is not stored any more")

// StoredReport is a report as it is stored.
type StoredReport struct {
	Data     []byte    `json:"data"`
	Received time.Time `json:"received"`
}

// StoredReport reads the report at a sequence of the stream. Whether it is the one that is meant, its digest
// tells. It works on a journal that was opened alone, too.
func (b *Bus) StoredReport(ctx context.Context, seq uint64) (StoredReport, error) {
	js, err := b.reports, error(nil)
	if js == nil {
		js, err = b.signInToReports()
	}
	var stream jetstream.Stream
	if err == nil {
		stream, err = js.Stream(ctx, b.reportsStream())
	}
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
