package signature

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// always is a gate that never rules out a match.
func always(string, int) bool { return true }

// digits reports whether the n bytes from s[i] are digits.
func digits(s string, i, n int) bool {
	if i+n > len(s) {
		return false
	}
	for _, b := range []byte(s[i : i+n]) {
		if !plaintext.IsDigit(b) {
			return false
		}
	}
	return true
}

// oneOf reports whether byte i of s is in bytes.
func oneOf(s string, i int, bytes string) bool {
	return i < len(s) && strings.IndexByte(bytes, s[i]) >= 0
}

func mayISO(rest string, _ int) bool { return digits(rest, 0, 4) && oneOf(rest, 4, "-/") }

func mayStamp(rest string, _ int) bool {
	rest = strings.TrimPrefix(rest, "run_")
	return digits(rest, 0, 8) && oneOf(rest, 8, "-_T")
}

func mayClock(rest string, _ int) bool {
	return digits(rest, 0, 1) && (oneOf(rest, 1, ":") || oneOf(rest, 2, ":"))
}

// mayWeekday accepts three letters, followed by a comma or a blank.
func mayWeekday(rest string, word int) bool {
	return word == 3 && oneOf(rest, 0, "MTWFS") && oneOf(rest, 3, ", ")
}

func mayDay(rest string, word int) bool {
	return word <= 2 && digits(rest, 0, word) && oneOf(rest, word, " -/") && oneOf(rest, word+1, "JFMASOND") ||
		mayWeekday(rest, word)
}

func mayMonth(rest string, word int) bool {
	return word == 3 && oneOf(rest, 0, "JFMASOND") && oneOf(rest, 3, " ") || mayWeekday(rest, word)
}

func mayUUID(rest string, word int) bool {
	return word == 8 && oneOf(rest, 8, "-") && oneOf(rest, 13, "-")
}

func mayBearer(rest string, word int) bool {
	return word == len("bearer") && oneOf(rest, 0, "bB") && oneOf(rest, word, " ")
}

func mayToken(rest string, _ int) bool {
	switch rest[0] {
	case 's':
		return oneOf(rest, 1, "k")
	case 'g':
		return oneOf(rest, 1, "hil")
	case 'x':
		return oneOf(rest, 1, "o")
	case 'e':
		return oneOf(rest, 1, "y")
	}
	return false
}

// mayID accepts names of 3 to 8 letters, followed by an underscore or hyphen.
func mayID(rest string, word int) bool {
	return strings.IndexByte("rsmctebf", rest[0]) >= 0 && (word <= len("chatcmpl") && oneOf(rest, word, "-") ||
		strings.IndexByte(rest[:min(word, len("chatcmpl_"))], '_') > 0)
}

func mayAttempt(rest string, word int) bool {
	return word == 8 && oneOf(rest, 8, "-") && digits(rest, 9, 1)
}

func mayNamed(rest string, word int) bool {
	switch rest[:word] {
	case "worker", "attempt", "task":
		return true
	}
	return false
}

// inName returns the length of the words, dots and hyphens at the start of s.
func inName(s string) (n int) {
	for n < len(s) && (plaintext.IsWord(s[n]) || s[n] == '.' || s[n] == '-') {
		n++
	}
	return n
}

func mayIssue(rest string, _ int) bool {
	owner := inName(rest)
	if !oneOf(rest, owner, "/") {
		return false
	}
	return oneOf(rest, owner+1+inName(rest[owner+1:]), "#")
}

func mayURL(rest string, word int) bool { return word <= 16 && strings.HasPrefix(rest[word:], "://") }

func mayHex(rest string, word int) bool {
	return plaintext.IsHex(rest[0]) && (word >= 7 || word >= 3 && rest[1]|0x20 == 'x')
}

func mayRandom(_ string, word int) bool { return word >= 20 }

func mayNumber(rest string, _ int) bool { return plaintext.IsDigit(rest[0]) }
