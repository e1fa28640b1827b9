package fsmtest

import "retake/internal/fsm"

// decided returns what the machine's last step decided, before anything of it is durable.
func decided(m *fsm.Machine) ([]fsm.Fact, []fsm.Effect) { return m.Decided() }

// omitData keeps the driver from writing JSON.
func omitData(d *fsm.Driver) { d.OmitData() }
