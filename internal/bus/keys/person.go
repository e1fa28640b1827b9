package keys

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/nats-io/jwt/v2"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// Files of a person's credential.
const (
	FilePerson      = "operator.json"
	FilePersonCreds = "operator.creds" // for NATS's own tools
)

// Person is the content of a person's credential file: everything that their tools need.
type Person struct {
	URL    string `json:"url"`
	JWT    string `json:"jwt"`
	Seed   string `json:"seed"`
	CA     string `json:"ca,omitempty"` // PEM; only if the listener speaks TLS
	Prefix string `json:"prefix"`
}

// WritePerson writes a person's credential, good for as long as the keys are, into dir.
func (d *Director) WritePerson(dir, url, ca, prefix string) error {
	u, err := d.Person(wire.Subjects{Prefix: prefix})
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(Person{URL: url, JWT: u.JWT, Seed: u.Seed, CA: ca, Prefix: prefix}, "", "  ")
	if err == nil {
		err = safefile.Write(filepath.Join(dir, FilePerson), 0o600, append(data, '\n'))
	}
	var creds []byte
	if err == nil {
		creds, err = jwt.FormatUserConfig(u.JWT, []byte(u.Seed))
	}
	if err == nil {
		err = safefile.Write(filepath.Join(dir, FilePersonCreds), 0o600, creds)
	}
	if err != nil {
		return fmt.Errorf("keys: credential of the operator: %w", err)
	}
	return nil
}
