package circumstances

import (
	"encoding/json"
	"slices"
)

// Record holds the circumstances of one failure. The zero value is empty. Only UnmarshalJSON and Redact change a
// Record.
type Record struct{ of content }

// content is the JSON form of a record.
type content struct {
	Stage       string   `json:"stage,omitempty"`       // name of the stage
	Number      int      `json:"number,omitempty"`      // position of the stage in the configuration, from 1
	Command     []string `json:"command,omitempty"`     // redacted and truncated; for an agent, only its program
	Profile     string   `json:"profile,omitempty"`     // name of the agent's profile
	Provider    string   `json:"provider,omitempty"`    // provider of the model, or github
	Asked       bool     `json:"asked,omitempty"`       // set if the run reached the provider
	Refused     bool     `json:"refused,omitempty"`     // set if the provider refused or failed a request
	Status      int      `json:"status,omitempty"`      // HTTP status of the refusal, or 0
	Credentials []string `json:"credentials,omitempty"` // names of the variables with the credential, never a value
	Runtime     string   `json:"runtime,omitempty"`     // docker, kubernetes or process
	Limit       *Limit   `json:"limit,omitempty"`       // the limit that ended the work
}

// Limit is a limit that ended the work.
type Limit struct {
	Setting string `json:"setting,omitempty"` // configuration key
	Value   string `json:"value,omitempty"`   // value with its unit
	// SetBy is configuration or default, or empty if it is unknown.
	SetBy string `json:"set_by,omitempty"`
}

// Default is the value of Limit.SetBy for a default value.
const Default = "default"

// Configuration is the value of Limit.SetBy for a configured value.
const Configuration = "configuration"

// UnmarshalJSON reads a record from the wire.
func (r *Record) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &r.of) }

// MarshalJSON writes the record.
func (r Record) MarshalJSON() ([]byte, error) { return json.Marshal(r.of) }

// JSONSchemaAlias returns a value of the type that represents a record in JSON, for the schema generator.
func (Record) JSONSchemaAlias() any { return content{} }

// Redact replaces every text with f(text).
func (r *Record) Redact(f func(string) string) {
	for _, text := range []*string{&r.of.Stage, &r.of.Profile, &r.of.Provider, &r.of.Runtime} {
		*text = f(*text)
	}
	r.of.Command, r.of.Credentials = slices.Clone(r.of.Command), slices.Clone(r.of.Credentials)
	for _, list := range [][]string{r.of.Command, r.of.Credentials} {
		for i := range list {
			list[i] = f(list[i])
		}
	}
	if l := r.of.Limit; l != nil {
		r.of.Limit = &Limit{f(l.Setting), f(l.Value), f(l.SetBy)}
	}
}

// Stage returns the name of the stage, or "".
func (r Record) Stage() string { return r.of.Stage }

// Number returns the position of the stage in the configuration, from 1, or 0 if it is unknown.
func (r Record) Number() int { return r.of.Number }

// Command returns the configured command of the stage, redacted and truncated. For an agent it contains only the
// program. It is empty if the failure did not come from a command.
func (r Record) Command() []string { return slices.Clone(r.of.Command) }

// Program returns the program as configured, or "".
func (r Record) Program() string {
	if len(r.of.Command) == 0 {
		return ""
	}
	return r.of.Command[0]
}

// Profile returns the name of the agent's profile, or "" for any other program.
func (r Record) Profile() string { return r.of.Profile }

// Provider returns the id of the provider, such as anthropic, or "" if it is unknown.
func (r Record) Provider() string { return r.of.Provider }

// Asked reports whether the run reached a provider.
func (r Record) Asked() bool { return r.of.Asked }

// Refused reports whether the provider refused or failed a request.
func (r Record) Refused() bool { return r.of.Refused }

// Status returns the HTTP status of the refusal, or 0.
func (r Record) Status() int { return r.of.Status }

// Credentials returns the names of the variables that hold the credential.
func (r Record) Credentials() []string { return slices.Clone(r.of.Credentials) }

// Runtime returns docker, kubernetes or process, or "" if it is unknown.
func (r Record) Runtime() string { return r.of.Runtime }

// Limit returns the limit that ended the work, or the zero value.
func (r Record) Limit() Limit {
	if r.of.Limit == nil {
		return Limit{}
	}
	return *r.of.Limit
}
