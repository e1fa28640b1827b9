package fsmtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
)

// eventLine tells an event in one line.
func eventLine(b fsm.EventBody) string {
	switch b := b.(type) {
	case fsm.IssuesSeen:
		var out []string
		for _, v := range b.Issues {
			out = append(out, fmt.Sprintf("%s open=%t %v", v.Key, v.Open, v.Labels))
		}
		return fmt.Sprintf("issues asked for at %s: %s", clock(b.AskedAt), strings.Join(out, ", "))
	case fsm.ContainersListed:
		return fmt.Sprintf("list taken at %s: %v", clock(b.TakenAt), b.Containers)
	case fsm.WorkerSeen:
		used := "does not say what it used"
		if u := b.Activity.Usage; u != nil {
			used = fmt.Sprintf("used %d paid calls", u.PaidCalls)
		}
		return fmt.Sprintf("heard %s: %s, paused=%t", b.Worker, used, b.Activity.Paused)
	case fsm.WorkersSeen:
		var out []string
		for _, s := range b.Signs {
			out = append(out, "at "+clock(s.At)+" "+eventLine(s.WorkerSeen))
		}
		return "handed over: " + strings.Join(out, "; ")
	case fsm.ReportReceived:
		return fmt.Sprintf("report %s of %s ok=%t final=%t %s", b.Report.Ref.ID, b.Worker, b.Report.OK, b.Report.Final,
			b.Report.Evidence.Message)
	case fsm.EffectEnded:
		switch {
		case b.Failure != nil:
			return fmt.Sprintf("%s failed: %s transient=%t", b.Effect, b.Failure.Text, b.Failure.Transient)
		case b.Claim != nil:
			return fmt.Sprintf("%s ended: ours=%t %s", b.Effect, b.Claim.Ours, b.Claim.Why)
		}
		return b.Effect + " ended"
	case fsm.SettingsRead:
		return fmt.Sprintf("configuration %s read because of %s: %v", b.Digest, b.By, b.Keys)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T %+v", b, b), "fsm."))
}

func clock(t time.Time) string { return t.Sub(epoch).Truncate(time.Millisecond).String() }

// factLine tells a fact in one line.
func factLine(f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.Moved:
		return fmt.Sprintf("%s: %s → %s (%s) %s", f.Task, f.From, f.To, f.On, f.Why)
	case fsm.EffectPlanned:
		return "plan " + f.Effect.ID
	case fsm.EffectDone:
		return strings.TrimSpace("done " + f.Effect + " " + f.Failed)
	case fsm.VerdictMade:
		return fmt.Sprintf("verdict on attempt %d of %s: %s → %s (%s)", f.Attempt, f.Task, f.Finding.Reason,
			f.Verdict.Action, f.Verdict.Why)
	}
	data, _ := json.Marshal(f)
	return strings.TrimPrefix(fmt.Sprintf("%T %s", f, data), "fsm.")
}

// transcript collects what a world tells.
func (w *world) transcript(lines *[]string) {
	w.say = func(format string, args ...any) {
		*lines = append(*lines, fmt.Sprintf("%12s  ", time.Duration(w.now).Truncate(time.Millisecond))+
			fmt.Sprintf(format, args...))
	}
}
