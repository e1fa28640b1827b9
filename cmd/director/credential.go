package main

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director"
	"retake/internal/github/api"
	"retake/internal/sys/hidden"
)

// credential adds the GitHub credential to o: a token, or the App's installation tokens. It does not send requests. A
// token is reread for each request, so a running director picks up a replacement.
func credential(cfg config.Config, log *zap.Logger, o director.Options) (director.Options, error) {
	var warned sync.Once
	warn := func(warning string) {
		if warning != "" {
			warned.Do(func() { log.Warn(warning) })
		}
	}
	if !cfg.IsApp() {
		o.Token = func(context.Context) (string, error) {
			token, warning, err := cfg.Token(hidden.Getenv)
			warn(warning)
			return token, err
		}
		return o, nil
	}
	key, warning, err := cfg.PrivateKey()
	if err != nil {
		return o, err
	}
	warn(warning)
	app, err := api.NewApp(api.AppOptions{
		BaseURL: cfg.GitHub.APIURL, ID: int64(cfg.GitHub.AppID), InstallationID: int64(cfg.GitHub.InstallationID),
		PrivateKey: key,
	})
	if err != nil {
		return o, err
	}
	o.Token, o.Login, o.Rights = app.Token, app.Login, app.Rights
	return o, nil
}

// noToken returns a token source that always fails with err.
func noToken(err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", err }
}
