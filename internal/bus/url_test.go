package bus

import "testing"

func TestCredentialsLeaveNoURL(t *testing.T) {
	const list = "nats://director:hunter2@a:4222, tls://director:hunter2@b:4222,nats://c:4222,::bad:hunter2"
	b := &Bus{options: Options{URL: list}}
	if got, want := b.WorkerURL("x"), "nats://a:4222,tls://b:4222,nats://c:4222"; got != want {
		t.Errorf("workers are told %q, want %q", got, want)
	}
	if got, want := redacted(list), "nats://director:xxxxx@a:4222,tls://director:xxxxx@b:4222,nats://c:4222"; got != want {
		t.Errorf("errors say %q, want %q", got, want)
	}
	if got, want := redacted("::bad:hunter2"), "the configured agent_bus.url"; got != want {
		t.Errorf("errors say %q, want %q", got, want)
	}
}
