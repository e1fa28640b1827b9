package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// literal writes a field as TOML.
func literal(field any) string {
	switch f := field.(type) {
	case *bool:
		return strconv.FormatBool(*f)
	case *int:
		return strconv.Itoa(*f)
	case *float64:
		return decimal(*f)
	case *time.Duration:
		return decimal(f.Seconds())
	case *Size:
		return quote(f.String())
	case *string:
		return quote(maskSecrets(*f))
	case *[]string:
		return quoteAll(*f)
	case *[]Mount:
		list := make([]string, len(*f))
		for i, m := range *f {
			list[i] = m.String()
		}
		return quoteAll(list)
	case *map[string]string:
		pairs := make([]string, 0, len(*f))
		for _, name := range slices.Sorted(maps.Keys(*f)) {
			pairs = append(pairs, name+" = "+quote(maskSecrets((*f)[name])))
		}
		if len(pairs) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	}
	return ""
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(maskSecrets(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote writes a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// String is the shortest exact form in binary units.
func (s Size) String() string {
	for _, u := range []struct {
		name string
		size Size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// String is the form that the file has.
func (m Mount) String() string {
	s := m.Source + ":" + m.Target
	if m.Volume {
		s = "volume:" + s
	}
	switch {
	case m.Volume && m.ReadOnly:
		return s + ":ro"
	case !m.Volume && !m.ReadOnly:
		return s + ":rw"
	}
	return s
}
