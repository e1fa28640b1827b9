package advise

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/BurntSushi/toml"

	"retake/internal/recovery"
)

// CheckPolicy prints what of a policy can never be reached, never ends or contradicts itself.
func CheckPolicy(p *recovery.Policy, out io.Writer) (ok bool, err error) {
	faults := p.Check()
	for _, f := range faults {
		if _, err := fmt.Fprintln(out, f); err != nil {
			return false, err
		}
	}
	if len(faults) > 0 {
		return false, nil
	}
	_, err = fmt.Fprintln(out, p.Name()+": ok")
	return err == nil, err
}

// RefusedPolicy prints why a policy's document was refused, a line per fault. What is no TOML, or no file, has none:
// then the error is what it was.
func RefusedPolicy(why error, out io.Writer) (ok bool, err error) {
	var syntax toml.ParseError
	if !errors.Is(why, recovery.ErrPolicy) || errors.As(why, &syntax) {
		return false, why
	}
	for fault := range strings.Lines(why.Error() + "\n") {
		if _, err := io.WriteString(out, strings.TrimPrefix(fault, recovery.ErrPolicy.Error()+": ")); err != nil {
			return false, err
		}
	}
	return false, nil
}
