package worker

import (
	"fmt"
	"path"
	"strings"

	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// spool keeps reports until they are acknowledged: in memory, which is what is sent, and as files, which survive us for
// whoever looks. Files are never read back: the agent could have written them, and those of an earlier attempt belong to
// an attempt that is over.
type spool struct {
	folder  *folder // nil: there is no workspace
	attempt string
	written int
	log     *zap.Logger
}

// spooled is one report that waits for its acknowledgement.
type spooled struct {
	report wire.Payload
	file   string // empty: it could not be written (a full disk must not silence the report of a full disk)
}

// sayLeftovers logs what earlier attempts left. It stays where it is.
func (s *spool) sayLeftovers() {
	if s.folder == nil {
		return
	}
	var left []string
	for _, n := range s.folder.list(spoolFolder) {
		if !strings.HasPrefix(n, s.attempt+".") {
			left = append(left, n)
		}
	}
	if len(left) > 0 {
		s.log.Info("reports of earlier attempts are in the spool; they are not sent", zap.Strings("files", left))
	}
}

// put writes a report down before it is sent. data is its rendered form.
func (s *spool) put(report wire.Payload, data []byte) spooled {
	if s.folder == nil {
		return spooled{report: report}
	}
	s.written++
	file := path.Join(spoolFolder, fmt.Sprintf("%s.%04d.json", s.attempt, s.written))
	if err := s.folder.write(file, 0o600, data); err != nil {
		s.log.Warn("a report could not be spooled; it is sent from memory", zap.String("error_id", idOf(report)), zap.Error(err))
		file = ""
	}
	return spooled{report, file}
}

// drop forgets an acknowledged report.
func (s *spool) drop(item spooled) {
	if item.file == "" {
		return
	}
	if err := s.folder.remove(item.file); err != nil {
		s.log.Warn("an acknowledged report stays in the spool", zap.Error(err))
	}
}
