package director

import (
	"context"

	"retake/internal/director/inforce"
	"retake/internal/fsm"
)

// setup returns the setup in force. Keys that need a restart are also in d.config, which never changes.
func (d *daemon) setup() *inforce.Setup {
	if c := d.inForce.Load(); c != nil {
		return c
	}
	return &inforce.Setup{Config: d.config} // before the adapters are open
}

// machineConfig returns the part of a setup that the machine decides by.
func (d *daemon) machineConfig(c *inforce.Setup) fsm.Config {
	cfg := c.Machine(d.only.Issues())
	if d.decides != nil {
		d.decides(&cfg)
	}
	return cfg
}

// decideSettings makes the machine decide by a setup. It returns false if the session ended first: the next session
// starts with the setup and reports it.
func (s *session) decideSettings(ctx context.Context, now *inforce.Setup) bool {
	if s.server != nil {
		s.server.Admit(now.Director.MaxWorkers)
	}
	cfg := s.machineConfig(now)
	if !s.owner.Decided(ctx, fsm.SettingsRead{SettingsChanged: *now.Change, Config: &cfg}) {
		return false
	}
	s.views.Configure(cfg)
	s.metrics.Slots(now.Director.MaxWorkers)
	s.broker.Limit(now.ModelLimits())
	return true
}

// settings returns the settings that tasks remember.
func (d *daemon) settings() *fsm.Settings { return d.setup().Settings(d.image()) }
