package keys

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nkeys"

	"retake/internal/safefile"
)

// The two directories that Make creates.
const (
	DirDirector = "director"
	DirServer   = "server"
)

// Files in these directories.
const (
	fileOperatorSeed = "nats-operator.nk"
	fileSystemSeed   = "system.nk"
	fileDirectorSeed = "director.nk"
	fileReportsSeed  = "reports.nk"
	fileWorkersSeed  = "workers.nk"
	fileAuthority    = "ca.crt"
	fileAuthorityKey = "ca.key"

	fileOperator       = "operator.jwt"
	fileSystem         = "system.jwt"
	fileDirector       = "director.jwt"
	fileReports        = "reports.jwt"
	fileCertificate    = "server.crt"
	fileCertificateKey = "server.key"
)

// oldOperatorSeed is the former name of fileOperatorSeed. It was renamed because a person's credential is also called
// "operator".
const oldOperatorSeed = "operator.nk"

// ErrThere reports that the directory already has keys.
var ErrThere = errors.New("keys: the directory already has keys")

// Director holds the director's signing keys. Its methods are safe for concurrent use.
type Director struct {
	operator, system, director, reports, workers nkeys.KeyPair

	ca string // PEM
}

// CA returns the certificate authority of TLS listeners, in PEM.
func (d *Director) CA() string { return d.ca }

// Make creates the keys of a bus below dir. The certificate covers hosts, which are names and addresses. Make returns
// ErrThere if dir appears to have keys already.
func Make(dir string, hosts []string) error { return makeWhole(dir, hosts, nil) }

// makeWhole creates keys in a temporary directory, and then moves everything to dir. Before the move, it calls more,
// which may be nil, to add files to the temporary directory.
func makeWhole(dir string, hosts []string, more func(temp string) error) error {
	for _, sub := range []string{DirDirector, DirServer} {
		if _, err := os.Lstat(filepath.Join(dir, sub)); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%w: %s", ErrThere, filepath.Join(dir, sub)), err)
		}
	}
	// Create everything in a temporary directory, and rename director/ last, so that the keys are complete if
	// director/ exists.
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	temp, err := os.MkdirTemp(dir, "keys"+safefile.TempMark)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	err = makeIn(temp, hosts)
	parts := []string{DirServer, DirDirector}
	if err == nil && more != nil {
		parts = []string{FilePerson, FilePersonCreds, DirServer, DirDirector}
		err = more(temp)
	}
	for _, part := range parts {
		if err == nil {
			err = safefile.Rename(filepath.Join(temp, part), filepath.Join(dir, part))
		}
	}
	if err = errors.Join(err, os.RemoveAll(temp)); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// Ensure creates the keys of an embedded server's bus below dir, unless they exist.
func Ensure(dir string) error {
	switch _, err := os.Lstat(filepath.Join(dir, DirDirector)); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("keys: %w", err)
	}
	// An interrupted start may have left server/ without director/. Its keys have not signed anything, so remove them.
	if err := os.RemoveAll(filepath.Join(dir, DirServer)); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return Make(dir, nil)
}

func makeIn(dir string, hosts []string) error {
	var d Director
	director, server := filepath.Join(dir, DirDirector), filepath.Join(dir, DirServer)
	if err := errors.Join(os.Mkdir(director, 0o700), os.Mkdir(server, 0o700)); err != nil {
		return err
	}
	for _, k := range d.seeds() {
		pair, err := nkeys.CreatePair(k.prefix)
		if err != nil {
			return err
		}
		seed, err := pair.Seed()
		if err == nil {
			err = safefile.Write(filepath.Join(director, k.file), 0o600, append(seed, '\n'))
		}
		if err != nil {
			return err
		}
		*k.to = pair
	}
	if err := makeAuthority(director); err != nil {
		return err
	}
	for file, sign := range map[string]func() (string, error){
		fileOperator: d.operatorClaims, fileSystem: d.systemAccount, fileDirector: d.directorAccount,
		fileReports: d.reportsAccount,
	} {
		token, err := sign()
		if err == nil {
			err = safefile.Write(filepath.Join(server, file), 0o600, []byte(token+"\n"))
		}
		if err != nil {
			return err
		}
	}
	return certify(director, server, hosts)
}

// kept pairs a key with its seed file.
type kept struct {
	file   string
	prefix nkeys.PrefixByte
	to     *nkeys.KeyPair
}

func (d *Director) seeds() []kept {
	return []kept{
		{fileOperatorSeed, nkeys.PrefixByteOperator, &d.operator},
		{fileSystemSeed, nkeys.PrefixByteAccount, &d.system},
		{fileDirectorSeed, nkeys.PrefixByteAccount, &d.director},
		{fileReportsSeed, nkeys.PrefixByteAccount, &d.reports},
		{fileWorkersSeed, nkeys.PrefixByteAccount, &d.workers},
	}
}

// Load reads the directory director/ that Make created. Its errors state the next step.
func Load(dir string) (*Director, error) {
	d := &Director{}
	for _, k := range d.seeds() {
		path := filepath.Join(dir, k.file)
		data, err := readPrivate(path)
		if k.file == fileOperatorSeed && errors.Is(err, fs.ErrNotExist) {
			data, err = readPrivate(filepath.Join(dir, oldOperatorSeed))
		}
		if err != nil {
			return nil, err
		}
		pair, err := nkeys.FromSeed(bytes.TrimSpace(data))
		if err == nil {
			err = nkeys.CompatibleKeyPair(pair, k.prefix)
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %s: %w: want the seed written by `director bus init`", path, err)
		}
		*k.to = pair
	}
	ca, err := readAuthority(filepath.Join(dir, fileAuthority))
	if err != nil {
		return nil, err
	}
	d.ca = ca
	return d, nil
}

// readPrivate reads a file, and fails if others have access to it.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keys: %w: want the director/ directory created by `director bus init`", err)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 && !lent(info, os.Getegid()) {
		err = fmt.Errorf("%s has mode %04o, so other users can read a bus key: run chmod 600 on it, and make new "+
			"keys if they may have read it", path, info.Mode().Perm())
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return data, nil
}

// lent reports whether a file belongs to root, and other users can read it only as members of this process's group.
// Kubernetes mounts a Secret this way for a pod with fsGroup.
func lent(info os.FileInfo, gid int) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && gid != 0 && int(owner.Gid) == gid && info.Mode().Perm()&0o037 == 0
}
