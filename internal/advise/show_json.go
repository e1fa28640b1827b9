package advise

import (
	"io"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// policyJSON is the JSON form of a policy. Names and units are the same as in a policy document.
type policyJSON struct {
	Policy  string                `json:"policy"`
	Backoff policy.Backoff        `json:"backoff"`
	Guards  map[string]*guardJSON `json:"guards"` // null if unlimited
	Rows    []policy.Standing     `json:"row"`

	Warnings []string `json:"warnings,omitempty"`
}

type guardJSON struct {
	Bound float64         `json:"bound"`
	Then  recovery.Action `json:"then"`
}

// ShowPolicyJSON prints the policy as one JSON object.
func ShowPolicyJSON(p *policy.Policy, out io.Writer, warnings ...string) error {
	j := policyJSON{
		Policy: p.Name(), Backoff: policy.Backoff(p.Backoff()), Guards: map[string]*guardJSON{}, Rows: p.Standings(),
		Warnings: warnings,
	}
	for _, g := range guardRows(p.Guards()) {
		j.Guards[g.name] = nil
		if g.set {
			j.Guards[g.name] = &guardJSON{g.bound, g.action()}
		}
	}
	enc := encoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}
