package bus

import (
	"fmt"

	"retake/internal/bus/wire"
)

// read decodes what came on a worker's subject and holds it against that subject. Every error is a *wire.Malformed.
func (b *Bus) read(subject string, data []byte) (worker string, e wire.Envelope, err error) {
	worker, channel, ok := b.subjects.ParseWorker(subject)
	if !ok {
		return "", e, &wire.Malformed{Cause: wire.CauseWrongSubject, Detail: fmt.Sprintf("%.200q is no worker's subject", subject)}
	}
	if err := wire.CheckSize(data, b.options.MaxMessageBytes); err != nil {
		return worker, e, err
	}
	if e, err = wire.Decode(data); err != nil {
		return worker, e, err
	}
	return worker, e, wire.CheckSender(e, worker, channel)
}
