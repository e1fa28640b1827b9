package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Step is what a run does about a failure.
type Step string

// The steps.
const (
	Continue        Step = "continue"
	WarnAndContinue Step = "warn and continue"
	Abort           Step = "abort"
)

// OnError says what a run does about a failure: a fatal one ends it, unless it is told to go on whatever happens.
func OnError(fatal, continueOnError bool) Step {
	switch {
	case !fatal:
		return Continue
	case continueOnError:
		return WarnAndContinue
	}
	return Abort
}

// ReportWanted says whether a run ends with a report: when something failed, and always if it was to go on whatever happens.
func ReportWanted(d ReportData) bool { return ExitCode(d) != 0 || d.ContinueOnError }

// ExitCode is 0 if nothing failed, else 1; a run that was told to go on whatever happens is no exception.
func ExitCode(d ReportData) int {
	if len(d.Failed) > 0 || d.Aborted != "" {
		return 1
	}
	return 0
}

// WriteReport writes ERROR_REPORT.md.
func WriteReport(dir string, d ReportData, redact func(string) string) error {
	return writeReport(realDisk, dir, d, redact)
}

func writeReport(to disk, dir string, d ReportData, redact func(string) string) error {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	return to.replace(filepath.Join(dir, ReportFile), []byte(redact(Report(cleaned(d, redact)))))
}

// Report writes ERROR_REPORT.md in the background.
func (w *Writer) Report(d ReportData) {
	w.put("report", 0, func() (string, error) {
		return filepath.Join(w.dir, ReportFile), writeReport(w.disk, w.dir, d, w.o.Redact)
	})
}

// RunReport is director report: it prints the report, or its data as JSON, and with write leaves ERROR_REPORT.md, too. What
// it reads was masked when it was written. The code is ExitCode's.
func RunReport(out io.Writer, dir string, o ReportOptions, asJSON, write bool) (code int, err error) {
	s, err := Find(dir)
	if err == nil && o.RunID != "" {
		err = s.knows(o.RunID)
	}
	if err != nil {
		return 2, err
	}
	d := s.Report(o)
	if asJSON {
		err = json.NewEncoder(out).Encode(d)
	} else {
		_, err = fmt.Fprint(out, Report(d))
	}
	if err == nil && write {
		err = WriteReport(dir, d, nil)
	}
	if err != nil {
		return 2, err
	}
	return ExitCode(d), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
