package classify

import (
	"strings"
	"testing"

	"retake/internal/recovery"
)

func TestTranslations(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"cp: error writing 'a': No space left on device", "cp: error writing 'a': No space left on device"},
		{"cp: 'a': Auf dem Gerät ist kein Speicherplatz mehr verfügbar\n", "cp: 'a': No space left on device\n"},
		{"KEINE BERECHTIGUNG", "Permission denied"},
		{"ci.sh: 行 2: ./gradlew: 权限不够", "ci.sh: 行 2: ./gradlew: Permission denied"},
		{"make: *** [Makefile:2: bundle] Вбито", "make: *** [Makefile:2: bundle] Killed"},
		{"a.c:2:12: Fehler: »b« nicht deklariert", "a.c:2:12: error: »b« nicht deklariert"},
		{
			"Połączenie odrzucone, Připojeno, Connessione rifiutata",
			"Connection refused, Připojeno, Connection refused",
		},
	} {
		if got := translate().english(tc.text); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.text, got, tc.want)
		}
	}
}

// TestTranslationsKeepEnglish checks that English phrases and the English examples of the rules do not change.
func TestTranslationsKeepEnglish(t *testing.T) {
	for _, l := range strings.Split(embeddedTranslations, "\n") {
		phrase, _, _ := strings.Cut(l, "\t")
		if got := translate().english(phrase); got != phrase {
			t.Errorf("%q becomes %q", phrase, got)
		}
	}
	c := newClassifier(t)
	for i := range c.rules {
		for _, ex := range c.rules[i].Examples {
			if got := translate().english(ex); got != ex && !strings.ContainsAny(ex, "»«’") {
				t.Errorf("%s: %q becomes %q", c.rules[i].ID, ex, got)
			}
		}
	}
}

// TestKilledCommand checks the reading of SIGKILL in a user's command.
func TestKilledCommand(t *testing.T) {
	c, code := newClassifier(t), 137
	for text, want := range map[string]recovery.Reason{
		"": recovery.OOMKilled,
		"ci.sh: ligne 2 : 20946 Processus arrêté      python3 a.py": recovery.OOMKilled,
		"> sh -c 'kill -9 $$'\n\nKilled\n":                          recovery.OOMKilled,
		"layout: 3 of 9":                                            recovery.Unknown,
		"collected 9 items\ntest_a.py ...\n":                        recovery.TestsFailed,
	} {
		f := c.Classify(recovery.Evidence{Stage: "VALIDATE", ExitCode: &code, Stderr: text})
		if f.Reason != want {
			t.Errorf("%q: %s by %s, want %s", text, f.Reason, f.Rule, want)
		}
	}
}
