package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// TestLogIsRedacted checks quoted reports, because every publisher of reports can put a token into them.
func TestLogIsRedacted(t *testing.T) {
	const token = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"
	var out bytes.Buffer
	sink := redactedLines{zapcore.AddSync(&out), &hiding{}}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), sink, zap.InfoLevel))
	log.Info("verdict", zap.String("cause", "fatal: could not read from https://x-access-token:"+token+
		"@github.com/acme/widgets"))
	log.Info("verdict "+token, zap.Strings("said", []string{"GH_TOKEN=" + token}))
	if strings.Contains(out.String(), token) || strings.Count(out.String(), "\n") != 2 {
		t.Error(out.String())
	}
}

// TestLogHidesValues hides a known value in any encoding.
func TestLogHidesValues(t *testing.T) {
	const value = "correct horse battery 4711"
	hides := &hiding{}
	hides.know(func() *redact.Redactor { return leak.Redactor(value) })
	var out bytes.Buffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		redactedLines{zapcore.AddSync(&out), hides}, zap.InfoLevel))
	for _, written := range []string{
		value, hex.EncodeToString([]byte(value)),
		base64.StdEncoding.EncodeToString([]byte("x" + value)), strings.ReplaceAll(value, " ", "\u200b%20"),
	} {
		log.Info("verdict", zap.String("cause", "it said "+written))
	}
	if found := leak.New(leak.Value{Name: "value", Text: value}).Find(out.String()); len(found) > 0 ||
		strings.Count(out.String(), redact.Marker) != 4 {
		t.Errorf("%v: %s", found, out.String())
	}
}

// TestErrorsAreRedacted checks errors, because they may quote a server, git or an outsider.
func TestErrorsAreRedacted(t *testing.T) {
	const token = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"
	quoted := fmt.Errorf("director: GitHub: fatal: could not read from "+
		"https://x-access-token:%s@github.com/acme/widgets", token)
	for _, row := range []struct {
		err  error
		code int
		says string
	}{{nil, 0, ""}, {errNo, 1, ""}, {noBecause{quoted}, 1, "could not read from"}, {quoted, 2, "could not read from"}} {
		var out bytes.Buffer
		if code := exitCode(row.err, &out); code != row.code || !strings.Contains(out.String(), row.says) ||
			strings.Contains(out.String(), token) {
			t.Errorf("%v: exit %d, want %d; %s", row.err, code, row.code, out.String())
		}
	}
}

// TestTextLogIsPlain prints only the log on a terminal, without secrets.
func TestTextLogIsPlain(t *testing.T) {
	const token = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"
	var out bytes.Buffer
	lines := zap.NewProductionEncoderConfig()
	log := zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(lines), plainLines{zapcore.AddSync(&out), &hiding{}},
		zap.InfoLevel))
	log.Info("verdict\x1b[2J\nsecond line",
		zap.String("cause", "x-access-token:"+token+"@github.com \x1b]52;c;eA==\x07"))
	if text := out.String(); strings.Contains(text, token) || strings.ContainsAny(text, "\x1b\x07") ||
		strings.Count(text, "\n") != 1 || !strings.Contains(text, "second line") {
		t.Errorf("%q", text)
	}
	if _, _, err := logger("info", "xml"); err == nil || !strings.Contains(err.Error(), "want auto, json or text") {
		t.Error(err)
	}
}
