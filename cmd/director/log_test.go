package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"retake/internal/redact"
)

// TestLogIsRedacted: anybody who may publish a report can write a token into it, and the log quotes reports.
func TestLogIsRedacted(t *testing.T) {
	const token = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"
	var out bytes.Buffer
	sink := redactedLines{zapcore.AddSync(&out), redact.New()}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), sink, zap.InfoLevel))
	log.Info("verdict", zap.String("cause", "fatal: could not read from https://x-access-token:"+token+"@github.com/acme/widgets"))
	log.Info("verdict "+token, zap.Strings("said", []string{"GH_TOKEN=" + token}))
	if strings.Contains(out.String(), token) || strings.Count(out.String(), "\n") != 2 {
		t.Error(out.String())
	}
}
