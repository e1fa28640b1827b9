package redact

import (
	"regexp"
	"strings"
)

// byName is the rule that examines the name in front of a value. It is hand-written, because a regular expression would
// dominate the run time.
const byName = "name"

var named = []rule{{name: byName, keys: []string{
	"secret", "token", "pass", "pwd", "cred", "key", "auth", "sess",
	"signature", "_pat", "mnemonic", "connectionstring", "connection_string",
}}}

// longestName is the maximum number of bytes of a name to search on each side of a key.
const longestName = 64

// lookAtName calls found for the value if the name around the position at denotes a secret. It returns the position
// after the name, or after the value if it is a secret.
func lookAtName(text, lower string, at int, found func(span)) (next int) {
	start, stop := at, at
	for start > 0 && at-start < longestName && isNameByte(text[start-1]) {
		start--
	}
	for stop < len(text) && stop-at < longestName && isNameByte(text[stop]) {
		stop++
	}
	a, ok := assignment(text, start, stop)
	if !ok {
		return stop
	}
	kind := kindOf(text[start:stop])
	if kind == noSecret {
		return stop
	}
	value := text[a.from:a.to]
	if strings.Contains(value, Marker) || !a.hides(kind, lower[start:stop], value) {
		return stop
	}
	found(span{a.from, a.to})
	return a.to
}

func isNameByte(c byte) bool { return isWord(c) || c == '-' || c == '.' }

// assigning describes an assignment to a name: the bounds of the value, and the form.
type assigning struct {
	from, to int
	firm     bool // has =, a flag, quotes, or an environment variable, unlike a word after a colon in a sentence
	quoted   bool
	flag     bool
	constant bool // the name is all capitals
	joined   bool // the value is part of a concatenation
	spaced   bool // the = has spaces around it, as in code
}

// valueOf matches the text between the name and the value in {"name": "DB_PASSWORD", "value": "…"}.
var valueOf = regexp.MustCompile(`^[\\"']{0,3}[ \t]*,?[ \t]*[\\"']{0,3}(?i:value)[\\"']{0,3}[ \t]*[:=]`)

// assignment finds the value assigned to the name at [start, stop).
func assignment(text string, start, stop int) (a assigning, ok bool) {
	name := text[start:stop]
	p := skip(text, stop, `\`)
	hasQuote := p < len(text) && strings.IndexByte("\"'`", text[p]) >= 0
	if hasQuote {
		p++
	}
	isTag := p < len(text) && text[p] == '>' && start > 0 && text[start-1] == '<'
	before := p
	p = skip(text, p, " \t")
	operator := p
	for p < len(text) && p-operator < 3 && strings.IndexByte(":=>", text[p]) >= 0 {
		p++
	}
	sign := text[operator:p]
	switch {
	case isTag:
		p, a.firm = before+1, true
	case sign == "" && hasQuote:
		m := valueOf.FindStringIndex(text[before-1 : min(len(text), before+40)])
		if m == nil {
			return a, false
		}
		p, a.firm = before-1+m[1], true
	case sign == "" && strings.HasPrefix(name, "-") && before+1 == operator:
		a.firm, a.flag = true, true
	case sign == "" || sign[0] == '>':
		return a, false
	}
	after := p
	p = skip(text, p, " \t")
	a.spaced = before < operator || after < p
	a.constant = sign != "==" && name == strings.ToUpper(name) &&
		strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	a.firm = a.firm || a.constant || sign == "=" && !a.spaced
	a.from, a.to, a.quoted = value(text, p, isTag)
	a.firm = (a.firm || a.quoted) && sign != "=="
	switch {
	case isTag:
		return a, strings.HasPrefix(text[a.to:], "</")
	case a.quoted && !hasQuote && isWithin(text, start, text[p:a.from]):
		return a, false
	case a.quoted:
		a.joined = concatenates.MatchString(text[a.to:min(len(text), a.to+8)])
	}
	return a, a.to > a.from
}

// concatenates matches the text after a string that is part of a concatenation.
var concatenates = regexp.MustCompile("^\\\\?[\"'`][ \t]*\\+")

// isWithin reports whether the quotation mark after the name ends a string that began before the name.
func isWithin(text string, start int, quote string) bool {
	line := strings.LastIndexByte(text[max(0, start-behindBytes):start], '\n') + 1 + max(0, start-behindBytes)
	before := text[line:start]
	n := strings.Count(before, quote)
	if len(quote) == 1 {
		n -= strings.Count(before, `\`+quote)
	}
	return n%2 == 1
}

func skip(text string, at int, bytes string) int {
	for at < len(text) && strings.IndexByte(bytes, text[at]) >= 0 {
		at++
	}
	return at
}

// value returns the bounds of the value that begins at the position at.
func value(text string, at int, isTag bool) (from, to int, quoted bool) {
	rest := text[at:restOfLine(text, at, len(text))]
	escapes := skip(rest, 0, `\`)
	if escapes < len(rest) && strings.IndexByte("\"'`", rest[escapes]) >= 0 {
		from = at + escapes + 1
		closing := rest[:escapes+1] // the closing quotation mark has the same escapes
		inner := rest[escapes+1:]
		for i := 0; i < len(inner); i++ {
			if strings.HasPrefix(inner[i:], closing) {
				return from, from + i, true
			}
			if inner[i] == '\\' && escapes == 0 {
				i++
			}
		}
		return from, from + len(strings.TrimRight(inner, "\r")), true
	}
	for i := range len(rest) {
		switch c := rest[i]; {
		case isTag:
			if c == '<' {
				return at, at + i, true
			}
		case c <= ' ' || c == 0x7f || strings.IndexByte("\"'`<>", c) >= 0,
			strings.IndexByte(",;&)]}", c) >= 0 &&
				(i+1 == len(rest) || separates.MatchString(rest[i+1:min(len(rest), i+40)])),
			c == '\\' && i+1 < len(rest) && strings.IndexByte("nrt\"'", rest[i+1]) >= 0:
			return at, at + i, false
		}
	}
	return at, at + len(rest), isTag
}

// separates matches the text after a character that ends a value without being part of it.
var separates = regexp.MustCompile(`^(?:[\s"'<>,;)\]}\\]|[A-Za-z_][\w.-]*=|$)`)

// kind classifies a name by the value that it probably has.
type kind int

const (
	noSecret kind = iota
	maybe         // another key, a secret if the value looks random
	session       // a session cookie, a secret if it looks random, even in hexadecimal; not an agent's session id
	pass          // a password, unless it counts passed tests
	password
	token
)

// about lists words that make a name harmless if they follow the word for a secret. For example, the value of
// "token_count" is not secret.
var about = words(
	`file files path paths dir url uri urls endpoint host port type types kind name names id ids count counts limit limits length len size sizes ttl expiry expires expire
	expiration expired timeout age policy policies version ring prefix suffix usage used max min budget total env header headers format algorithm alg store storage manager provider
	providers ref refs field fields column index scanner rotate rotation enabled disabled required valid invalid mode server per cost price window rate status state info stdin scope
	scopes permissions permission hint label title description desc text input output message error errors err request requests response method methods reset change changed
	validation validator strength level source location position pos offset line kind class service issuer audience bucket bits fingerprint thumbprint exists missing found
	created updated at by from for to of in is was and or not cache cached map list set array table stream parser lexer loader generator helper util utils module test tests
	arn selector digest sum checksum agent`)

// qualifies lists words that make a following "key" a secret.
var qualifies = words(
	`api access secret private account shared storage signing sign encryption encrypt decryption master auth license deploy ssh service admin hmac jwt function
	subscription instrumentation webhook app application consumer client crypto cipher aes rsa session cookie root write ingest personal project org user integration primary secondary`)

var passwordEnds = []string{"password", "passwd", "passphrase", "passcode", "passwort"}

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// kindOf classifies a name by its words.
func kindOf(name string) (k kind) {
	list := splitName(name)
	for i, w := range list {
		before := ""
		if i > 0 {
			before = list[i-1]
		}
		if of := kindOfWord(w, before); of != noSecret {
			k = of
		} else if k != noSecret && about[w] {
			return noSecret
		}
	}
	return k
}

// kindOfWord classifies a lower-case word, given the preceding word.
func kindOfWord(w, before string) kind {
	if len(w) > 4 && w[len(w)-1] == 's' && w != "pass" {
		w = w[:len(w)-1]
	}
	switch {
	case strings.HasSuffix(w, "pas") && (w == "pas" || w == "dbpas" || w == "userpas"), w == "pass", w == "dbpass",
		w == "userpass":
		if before == "" && len(w) <= 4 {
			return maybe
		}
		return pass
	case strings.HasPrefix(w, "passw"), w == "passphrase", w == "passcode", w == "mnemonic", w == "connectionstring":
		return password
	case w == "string" && before == "connection":
		return password
	case w == "pwd" || strings.HasSuffix(w, "pwd") && w != "oldpwd":
		return pass
	case strings.HasSuffix(w, "secret"), w == "token" || strings.HasSuffix(w, "token"), w == "credential", w == "cred",
		w == "pat" && before != "":
		return token
	case w == "signature" || w == "auth":
		return maybe
	case strings.HasSuffix(w, "sessid"), w == "jsessionid":
		return session
	}
	for _, end := range passwordEnds {
		if strings.HasSuffix(w, end) {
			return password
		}
	}
	if w == "key" {
		if qualifies[before] {
			return token
		}
		return maybe
	}
	if rest, ok := strings.CutSuffix(w, "key"); ok && qualifies[rest] {
		return token
	}
	return noSecret
}

// splitName splits a name at non-letters and before capitals.
func splitName(name string) (list []string) {
	from := -1
	for i := 0; i <= len(name); i++ {
		isLetter := i < len(name) && isWord(name[i]) && name[i] != '_' && (name[i] < '0' || name[i] > '9')
		begins := isLetter && from >= 0 && isUpper(name[i]) &&
			(!isUpper(name[i-1]) || i+1 < len(name) && isLower(name[i+1]))
		if from >= 0 && (!isLetter || begins) {
			list = append(list, lowerASCII(name[from:i]))
			from = -1
		}
		if isLetter && from < 0 {
			from = i
		}
	}
	return list
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// hides reports whether to hide a value, given the kind of its name.
func (a assigning) hides(k kind, name, value string) bool {
	if len(value) < 3 || isHarmless(name, value) || !a.quoted && isCode(value) {
		return false
	}
	switch k {
	case maybe:
		return a.firm && isDrawn(value) && !isIdentifier(value) && !strings.ContainsAny(value, "-.:")
	case session:
		return isDrawn(value)
	case pass:
		return a.firm && !number.MatchString(value) && (isMixed(value) || len(value) >= 8 && !a.spaced && !a.flag)
	case password:
		return a.firm || len(value) >= 6 && isMixed(value)
	}
	switch {
	case number.MatchString(value), a.flag && value == strings.ToUpper(value) &&
		!strings.ContainsAny(value, "0123456789"):
		return false
	case !isDrawn(value) && (a.joined || !a.constant && strings.Contains(value, " ") || place.MatchString(value)):
		return false
	case a.firm:
		return true
	}
	return isDrawn(value)
}

var (
	number  = regexp.MustCompile(`^[-+]?[0-9][0-9,._]*(?:[a-zA-Z%]{1,3})?$`)
	version = regexp.MustCompile(`^[v^~<>=]*[0-9]+(?:\.[0-9x*]+)+(?:[-+.][\w.+-]*)?$`)
	path    = regexp.MustCompile(
		`^(?:(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][A-Za-z0-9._@{}$-]+)+[/\\]?|[\w./-]+\.(?:json|ya?ml|toml|pem|key|crt|txt|env|go|js|ts|py|rs|java|rb|php|c|h|cc|cpp|md|html|conf|cfg|ini|sock|creds|log|sh|service))(?::\d+)*:?$`)
	// a path of words, or a regular expression
	place = regexp.MustCompile(
		`^[a-z][a-z0-9_.-]*(?:/[a-z0-9_.-]+)+$|^[a-z_]+(?:\.[a-z_]+)+$|\[\\?[\w-][^\]]*\][+*{]`)
	address    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^@]*$`)
	code       = regexp.MustCompile(`^[&*!]?[A-Za-z_][\w.]*[(\[{]|^[&*!]?[A-Za-z_]+(?:\.[A-Za-z_]+)+$|^[({\[]|^[!&*]`)
	identifier = regexp.MustCompile(`^(?:sha\d+[:-])?[0-9a-f-]+$|^[0-9A-F-]+$`)
	ordinary   = words(
		`true false null nil none undefined unset empty required optional string str text int integer number bool boolean bytes byte value any object yes no on off auto
		default enabled disabled invalid missing expired valid redacted hidden masked changeme example placeholder secret token password key basic bearer eof ident identifier stdin
		file path read write admin public private all never always unknown string,omitempty`)
)

// isHarmless reports whether a value is not secret, because it is a placeholder, an ordinary word, the name itself, a
// version, a path or an address.
func isHarmless(name, value string) bool {
	lower := lowerASCII(value)
	return !isNoPlaceholder(value) || ordinary[strings.Trim(lower, ".,:;!?")] || lower == strings.TrimLeft(name, "-") ||
		version.MatchString(value) ||
		path.MatchString(value) || address.MatchString(value)
}

// isNoPlaceholder returns false for variable references and common placeholders.
func isNoPlaceholder(value string) bool {
	return !placeholder.MatchString(value) && strings.Trim(value, "*•xX.…-_ ") != "" && !strings.Contains(value, Marker)
}

var placeholder = regexp.MustCompile(
	`^\\?\$(?:[A-Za-z_]\w*|\{[^}]*\}?|\(.*)$|^\$\{\{.*|^%[\w{(]|^%?%[A-Za-z_]+%?%?$|^<.*|^\x60|^\{\{?[A-Za-z]|(?i:^\W?your[_ -])|^\*{3,}|^\[[A-Za-z ]*\]?$`)

// isCode reports whether a value looks like an expression in a program.
func isCode(value string) bool { return code.MatchString(value) }

// isMixed reports whether a value mixes letters, digits and other characters, or has capitals inside, unlike a word.
func isMixed(value string) bool {
	letter, digit, other, inner := false, false, false, false
	for i := range len(value) {
		c := value[i]
		switch {
		case '0' <= c && c <= '9':
			digit = true
		case isUpper(c) || isLower(c):
			inner = inner || i > 0 && isUpper(c) && isLower(value[i-1])
			letter = true
		default:
			other = other || i > 0 && i < len(value)-1 && strings.IndexByte("-_.:/'", c) < 0
		}
	}
	return letter && (digit || other || inner) || digit && other
}

// isIdentifier reports whether a value contains only characters of a commit id, a digest or a UUID.
func isIdentifier(value string) bool { return identifier.MatchString(value) }

// isDrawn reports whether a value looks random. It must have at least 16 characters, all from the alphabet of keys. It
// must also consist of hexadecimal digits, or have at least one change per five characters (per four without digits). A
// change is a letter next to a digit, or an upper-case letter after a lower-case one.
func isDrawn(value string) bool {
	if len(value) < 16 || !alphabet.MatchString(value) {
		return false
	}
	changes, digits, letters := 0, 0, 0
	for i := range len(value) {
		c := value[i]
		isDigit := '0' <= c && c <= '9'
		if isDigit {
			digits++
		} else if isWord(c) && c != '_' {
			letters++
		}
		if i > 0 && isWord(c) && isWord(value[i-1]) && (isDigit != ('0' <= value[i-1] && value[i-1] <= '9') ||
			isUpper(c) && isLower(value[i-1])) {
			changes++
		}
	}
	return digits > 0 && letters > 0 && (5*changes >= len(value) || isIdentifier(value)) || letters > 0 &&
		4*changes >= len(value)
}

var alphabet = regexp.MustCompile(`^[A-Za-z0-9+/_.~=-]+$`)
