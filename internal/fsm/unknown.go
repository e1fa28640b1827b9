package fsm

import "time"

// A worker without an attempt that keeps sending, or whose container stays, is answered once a minute, and more
// and more seldom: that of a lost node may stay for days. So many are remembered.
const (
	fenceEvery        = time.Minute
	fenceSeldom       = 10 * time.Minute
	maxUnknownWorkers = 1024
)

// unknownWorkers limits how often workers without an attempt are answered: each of them, and all together.
type unknownWorkers struct {
	places  []answeredWorker // at most maxUnknownWorkers
	placeOf map[string]int
	roomAt  time.Time // no place is given away before
}

type answeredWorker struct {
	worker string
	at     time.Time
	wait   time.Duration // it is left alone for so long
}

func (a *answeredWorker) dueAt() time.Time { return a.at.Add(a.wait) }

// answer reports whether a worker is answered now. If all places are taken, a new worker gets that of the one that
// was due first; while none is due the new one gets no answer, and will ask again.
func (u *unknownWorkers) answer(worker string, now time.Time) bool {
	i, known := u.placeOf[worker]
	wait := time.Duration(0)
	switch {
	case known && now.Before(u.places[i].dueAt()):
		return false
	case known:
		wait = u.places[i].wait
	case len(u.places) < maxUnknownWorkers:
		i, u.places = len(u.places), append(u.places, answeredWorker{})
	case now.Before(u.roomAt):
		return false
	default:
		i = u.firstDue()
		if u.roomAt = u.places[i].dueAt(); now.Before(u.roomAt) {
			return false
		}
		delete(u.placeOf, u.places[i].worker)
	}
	if u.placeOf == nil {
		u.placeOf = map[string]int{}
	}
	u.placeOf[worker], u.places[i] = i, answeredWorker{worker, now, min(wait+fenceEvery, fenceSeldom)}
	return true
}

func (u *unknownWorkers) firstDue() (first int) {
	for i := range u.places {
		if u.places[i].dueAt().Before(u.places[first].dueAt()) {
			first = i
		}
	}
	return first
}

// unknownWorker records a worker without an attempt, unless it was recorded a moment ago, and reports whether it did.
func (m *recorder) unknownWorker(worker string) bool {
	answer := m.unknownWorkers.answer(worker, m.now)
	if answer {
		m.record(WorkerAnswered{Worker: worker})
	}
	return answer
}

// fenceUnknown tells a worker without an attempt to end, now and then.
func (m *recorder) fenceUnknown(worker string, token uint64) {
	if m.unknownWorker(worker) {
		m.emit(nil, Effect{Kind: DoFence, Worker: worker, Token: token})
	}
}

// fence tells a worker to end whose attempt is over or was never ours. The fact keeps a director that has been
// replaced, and does not know it yet, from fencing a worker of its successor.
func (m *recorder) fence(worker string) {
	m.record(WorkerAnswered{Worker: worker})
	m.emit(nil, Effect{Kind: DoFence, Worker: worker})
}
