package config

import (
	"bytes"
	"errors"
	"fmt"
)

// LoadToAsk is like Load, for commands that query a running director. It tolerates problems, but returns an error if
// it cannot determine the data directory, because the query could then reach another director.
func LoadToAsk(path string, env []string, overrides map[string]string) (c Config, p Problems, err error) {
	l, p := loadFile(path, env, overrides)
	if l.doc == nil {
		return *l.c, p, p.Err() // the file is unreadable
	}
	if !l.knowsDataDir() {
		return *l.c, p, fmt.Errorf("%w\nWithout a valid director.data_dir, the command could reach another director",
			p.Err())
	}
	return *l.c, p, nil
}

// Readable returns an error if a file cannot be read. It does not check the contents.
func Readable(path string) error {
	l, p := loadFile(path, nil, nil)
	if l.doc != nil {
		return nil
	}
	return errors.New(p.String())
}

// knowsDataDir reports whether the data directory could be determined: either a valid value is set, or the file does
// not mention the key, so that the default applies.
func (l *loader) knowsDataDir() bool {
	_, set := l.set[dataDirKey]
	switch {
	case l.bad[dataDirKey]:
		return false
	case set || l.doc.Values != nil:
		return true
	}
	return !bytes.Contains(l.data, []byte("data_dir")) // parsing stopped at the first syntax error
}

// salvage recovers the data directory from the part of the file before the syntax error.
func (l *loader) salvage() {
	section, _ := l.doc.Before["director"].(map[string]any)
	if dir, ok := section["data_dir"].(string); ok && l.doc.Values == nil {
		l.value(dataDirKey, l.rows[dataDirKey], dir)
	}
}
