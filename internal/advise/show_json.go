package advise

import (
	"encoding/json"
	"io"

	"retake/internal/recovery"
)

// policyJSON is a policy for machines. Names and units are those of a policy's document.
type policyJSON struct {
	Policy  string                `json:"policy"`
	Backoff backoffJSON           `json:"backoff"`
	Guards  map[string]*guardJSON `json:"guards"` // null: no bound
	Rows    []rowJSON             `json:"row"`

	Warnings []string `json:"warnings,omitempty"`
}

type guardJSON struct {
	Bound float64         `json:"bound"`
	Then  recovery.Action `json:"then"`
}

type rowJSON struct {
	On       string            `json:"on"`
	Reasons  []recovery.Reason `json:"reasons,omitempty"`
	Caller   string            `json:"caller,omitempty"`
	Class    recovery.Class    `json:"class,omitempty"`
	Fatal    bool              `json:"fatal"`
	Count    recovery.Unit     `json:"count"`
	Ladder   []rungJSON        `json:"ladder"`
	Backoff  *backoffJSON      `json:"backoff,omitempty"`
	Wait     waitJSON          `json:"wait"`
	Restarts bool              `json:"restarts_backoff"`
	Cools    string            `json:"cools,omitempty"`
	Charges  recovery.Cause    `json:"charges,omitempty"`
	Then     recovery.Action   `json:"then"`
	Becomes  recovery.Reason   `json:"becomes,omitempty"`
	Ask      string            `json:"ask,omitempty"`
	Why      string            `json:"why,omitempty"`
	Own      bool              `json:"own,omitempty"`          // of the document, not of its base
	By       []string          `json:"overruled_by,omitempty"` // rows that decide all that this one names
}

type rungJSON struct {
	Action recovery.Action      `json:"action"`
	Times  any                  `json:"times"` // a number, or "unlimited"
	When   []recovery.Condition `json:"when,omitempty"`
}

type waitJSON struct {
	Default float64 `json:"default_seconds"`
	Cap     float64 `json:"cap_seconds"`
	Longest float64 `json:"longest_seconds"`
	Backoff bool    `json:"then_backoff"`
}

type backoffJSON struct {
	Formula string          `json:"formula"`
	Base    float64         `json:"base_seconds"`
	Factor  float64         `json:"factor"`
	Cap     float64         `json:"cap_seconds"`
	Jitter  recovery.Jitter `json:"jitter"`
	Spread  float64         `json:"spread"`
	Add     float64         `json:"add_seconds"`
}

// ShowPolicyJSON prints the table that decides as one JSON object.
func ShowPolicyJSON(p *recovery.Policy, out io.Writer, warnings ...string) error {
	j := policyJSON{Policy: p.Name(), Backoff: *backoffOf(p.Backoff()), Guards: map[string]*guardJSON{}, Warnings: warnings}
	for _, g := range guardRows(p.Guards()) {
		j.Guards[g.name] = nil
		if g.set {
			j.Guards[g.name] = &guardJSON{g.bound, g.action()}
		}
	}
	for _, r := range p.Standings() {
		j.Rows = append(j.Rows, rowOf(r))
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}

func rowOf(r recovery.Standing) rowJSON {
	j := rowJSON{
		On: r.On, Reasons: r.Reasons, Caller: r.Caller, Class: r.Class, Fatal: r.Fatal, Count: r.Count, Ladder: []rungJSON{},
		Wait:     waitJSON{r.Wait.Default.Seconds(), r.Wait.Cap.Seconds(), r.Wait.Longest.Seconds(), r.Wait.Backoff},
		Restarts: r.Restarts, Cools: r.Cools, Charges: r.Charges, Then: r.Then, Becomes: r.Becomes, Ask: r.Ask, Why: r.Why, Own: r.Own, By: r.By,
	}
	for _, g := range r.Ladder {
		rung := rungJSON{g.Action, g.Times, g.When}
		if g.Times < 0 {
			rung.Times = "unlimited"
		}
		j.Ladder = append(j.Ladder, rung)
	}
	if r.Backoff != nil {
		j.Backoff = backoffOf(*r.Backoff)
	}
	return j
}

func backoffOf(b recovery.Backoff) *backoffJSON {
	formula := "fixed"
	switch {
	case b.Linear:
		formula = "linear"
	case b.Factor > 1:
		formula = "exponential"
	}
	return &backoffJSON{formula, b.Initial.Seconds(), b.Factor, b.Max.Seconds(), b.Jitter, b.Spread, b.Add.Seconds()}
}
