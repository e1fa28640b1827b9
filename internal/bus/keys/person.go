package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// Files of a person's credential.
const (
	FilePerson      = "operator.json"
	FilePersonCreds = "operator.creds" // for NATS's tools
)

// Person is the content of a person's credential file, which their tools use to connect.
type Person struct {
	URL    string `json:"url"`
	JWT    string `json:"jwt"`
	Seed   string `json:"seed"`
	CA     string `json:"ca,omitempty"` // PEM, set only if the listener uses TLS
	Prefix string `json:"prefix"`
}

// WritePerson writes a new credential for a person to dir. The credential does not expire.
func (d *Director) WritePerson(dir, url, ca, prefix string) error {
	if !strings.HasPrefix(url, "tls://") {
		ca = ""
	}
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

// ReadPerson reads a person's credential file.
func ReadPerson(path string) (p Person, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return p, fmt.Errorf("keys: %s: %w: want a person's credential file (operator.json)", path, err)
	}
	return p, nil
}

// RevokePerson permanently revokes one person's credential in the claims below dir, which the server reads when it
// starts. It returns the claims, because the caller must push them to a running server. Credentials of other people
// stay valid.
func RevokePerson(dir string, p Person) (claims string, err error) {
	d, err := Load(filepath.Join(dir, DirDirector))
	if err != nil {
		return "", err
	}
	user, err := jwt.DecodeUserClaims(p.JWT)
	if err != nil {
		return "", fmt.Errorf("keys: person's credential: %w", err)
	}
	server := filepath.Join(dir, DirServer)
	before, err := readClaims(server, fileReports)
	if err != nil {
		return "", err
	}
	account, err := jwt.DecodeAccountClaims(before)
	if err != nil {
		return "", fmt.Errorf("keys: %s: %w", filepath.Join(server, fileReports), err)
	}
	if user.Issuer != account.Subject {
		return "", errors.New("keys: the credential does not match the keys in the directory")
	}
	account.Revoke(user.Subject)
	if claims, err = account.Encode(d.operator); err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	// Change the configuration first, because the old claims in the file identify the text to replace.
	config := filepath.Join(server, FileConfig)
	text, err := os.ReadFile(config)
	switch {
	case errors.Is(err, fs.ErrNotExist): // an embedded server has no configuration file
		err = nil
	case err == nil && !strings.Contains(string(text), before):
		err = fmt.Errorf("%s does not contain the claims in %s: add them", config,
			filepath.Join(server, fileReports))
	case err == nil:
		err = safefile.Write(config, 0o600, []byte(strings.Replace(string(text), before, claims, 1)))
	}
	if err == nil {
		err = safefile.Write(filepath.Join(server, fileReports), 0o600, []byte(claims+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	return claims, nil
}
