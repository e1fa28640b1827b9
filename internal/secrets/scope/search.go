package scope

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"

	"retake/internal/secrets/leak"
)

// guesses is the generic rule of gitleaks, which guesses from the name in front of a value. The other rules match the
// form of a secret.
const guesses = "generic-api-key"

// detector returns the rules of gitleaks. The first call loads them, which takes 50 ms.
var detector = sync.OnceValue(func() *detect.Detector {
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		panic(fmt.Sprint("scope: gitleaks rules: ", err)) // cannot fail: the rules are embedded
	}
	d.IgnoreGitleaksAllow = true
	rule, ok := d.Config.Rules[guesses]
	if !ok {
		panic("scope: missing gitleaks rule " + guesses)
	}
	for i, a := range d.Config.Allowlists {
		rule.Allowlists = append(rule.Allowlists, &config.Allowlist{Paths: a.Paths})
		d.Config.Allowlists[i] = &config.Allowlist{
			MatchCondition: a.MatchCondition, RegexTarget: a.RegexTarget, Regexes: a.Regexes, StopWords: a.StopWords,
		}
	}
	d.Config.Rules[guesses] = rule
	return d
})

// secret is a secret found in a text.
type secret struct {
	rule, value string
	line        int
	isOwn       bool // one of the director's known values; rule is then its name and encoding
}

// same compares secrets without their positions, so that another occurrence of a secret in the file does not count as
// new. For the director's own values, it compares only the name and the encoding.
func (s secret) same(other secret) bool {
	return s.isOwn == other.isOwn && s.rule == other.rule && (s.isOwn || s.value == other.value)
}

const (
	// pieceBytes is the size of one searched piece. Pieces are small, because search time grows with the square of the
	// number of findings.
	pieceBytes = 64 << 10
	// overlapBytes is the overlap between two pieces. It is longer than the longest secret, a private key.
	overlapBytes = 8 << 10
)

// search returns the secrets in a text, in order, or the error of ctx.
func (l *Look) search(ctx context.Context, name, text string) ([]secret, error) {
	found, err := search(ctx, name, text)
	if err != nil {
		return nil, err
	}
	found = append(found, l.own(text)...)
	slices.SortStableFunc(found, func(a, b secret) int { return a.line - b.line })
	return found, nil
}

// searchFile returns the secrets in a file and in the archives that it contains, or errTooMuch.
func (l *Look) searchFile(ctx context.Context, name, content string) ([]secret, error) {
	found, err := l.searchBytes(ctx, name, content)
	if err != nil {
		return nil, err
	}
	err = unpack(ctx, content, func(member, text string) error {
		for _, t := range []string{member, text} {
			more, err := l.searchBytes(ctx, path.Base(member), t)
			if err != nil {
				return err
			}
			for _, s := range more {
				s.line = 0
				found = append(found, s)
			}
		}
		return nil
	})
	return found, err
}

// searchOwn returns the director's own values in a file and in the archives that it contains.
func (l *Look) searchOwn(ctx context.Context, _, content string) ([]secret, error) {
	found := l.own(content)
	err := unpack(ctx, content, func(member, text string) error {
		for _, s := range l.own(member + "\n" + text) {
			s.line = 0
			found = append(found, s)
		}
		return nil
	})
	if errors.Is(err, errTooMuch) {
		err = nil // the operator has excluded the file
	}
	return found, err
}

// searchBytes returns the secrets in text or binary content. It removes NUL bytes, so that it also finds secrets in
// UTF-16 and UTF-32.
func (l *Look) searchBytes(ctx context.Context, name, content string) ([]secret, error) {
	if !strings.Contains(content, "\x00") {
		return l.search(ctx, name, content)
	}
	text, others := readable(content)
	found, err := l.search(ctx, name, text)
	if err != nil {
		return nil, err
	}
	isText := others*10 < len(text)
	found = slices.DeleteFunc(found, func(s secret) bool { return !isText && !s.isOwn && s.rule == guesses })
	return append(found, l.own(content)...), nil
}

// readable returns content without NUL bytes, and the number of other bytes that do not occur in text. Each of those
// bytes becomes a line break.
func readable(content string) (text string, others int) {
	var out strings.Builder
	out.Grow(len(content))
	for i := range len(content) {
		switch c := content[i]; {
		case c == 0:
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c >= 0x7f:
			others++
			out.WriteByte('\n')
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), others
}

// own returns the first occurrence of each of the director's values in each encoding.
func (l *Look) own(text string) (found []secret) {
	for _, m := range l.known.Find(text) {
		rule := m.Name
		if m.As != "" {
			rule += ", " + m.As
		}
		found = append(found, secret{rule, text[m.At:m.End], 1 + strings.Count(text[:m.At], "\n"), true})
	}
	return found
}

// search applies the rules of gitleaks.
func search(ctx context.Context, name, text string) ([]secret, error) {
	seen := map[secret]bool{}
	line := 1
	for {
		piece := text[:min(len(text), pieceBytes)]
		//nolint:staticcheck // DetectContext takes no other type in v8
		found := detector().DetectContext(ctx, detect.Fragment{Raw: piece, FilePath: name})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, f := range found {
			seen[secret{f.RuleID, strings.TrimSpace(f.Secret), line + f.StartLine, false}] = true
		}
		if len(piece) == len(text) {
			break
		}
		next := len(piece) - overlapBytes
		if end := strings.IndexByte(piece[next:], '\n'); end >= 0 {
			next += end + 1
		}
		line += strings.Count(text[:next], "\n")
		text = text[next:]
	}
	return slices.Collect(maps.Keys(seen)), nil
}

// Mask replaces secrets and known values in text that people see, such as a patch. If ctx ends during the search, Mask
// returns an empty string and the cause of ctx.
func Mask(ctx context.Context, text string, known *leak.Finder) (string, error) {
	text = known.Mask(text)
	found, err := search(ctx, "", text)
	if err != nil {
		return "", err
	}
	values := map[string]bool{}
	for _, s := range found {
		values[s.value] = true
	}
	return mask(text, values), nil
}
