package config

import (
	"strings"
	"testing"
)

// TestKubernetes checks the settings that runtime "kubernetes" requires or forbids.
func TestKubernetes(t *testing.T) {
	const (
		stages = "[[stage]]\nname = \"CODE\"\nrun = [\"true\"]\n"
		whole  = "worker_image = \"retake-director:1\"\naddress = \"director.retake.svc\"\n"
	)
	for _, c := range []struct{ containers, kubernetes, more, want string }{
		{"", whole, "", ""},
		{"", "address = \"10.0.0.7\"", "", `attempts on Kubernetes need kubernetes.worker_image`},
		{"", "worker_image = \"w:1\"", "", "pods have to reach the bus, want kubernetes.address"},
		{"", "worker_image = \"w:1\"", "[agent_bus]\nurl = \"tls://nats:4222\"\ncredentials = \"keys\"\n", ""},
		{`egress = ["api.anthropic.com"]`, "worker_image = \"w:1\"", "[agent_bus]\nurl = \"tls://nats:4222\"\n" +
			"credentials = \"keys\"\n", "pods have to reach the director's proxy"},
		{
			"egress = [\"api.anthropic.com\"]\nproxy_url = \"http://egress:8732\"", "worker_image = \"w:1\"",
			"[agent_bus]\nurl = \"tls://nats:4222\"\ncredentials = \"keys\"\n", "",
		},
		{"", whole, "[workspace]\ntransport = \"mount\"\n", `want workspace.transport = "sync"`},
		{`mounts = ["/usr/local/go:/usr/local/go"]`, whole, "", "want volumes in kubernetes.pod_template"},
		{`oci_runtime = "runsc"`, whole, "", "want runtimeClassName in kubernetes.pod_template"},
		{"", whole + "namespace = \"Not_A_Name\"", "", "kubernetes.namespace"},
		{"", whole + "pending_timeout_seconds = 0", "", "kubernetes.pending_timeout_seconds"},
		{"", "worker_image = \"w:1\"\naddress = \"http://director\"", "", "kubernetes.address"},
	} {
		if !strings.Contains(c.more, "[workspace]") {
			c.more += "[workspace]\ntransport = \"sync\"\n"
		}
		text := "[containers]\nruntime = \"kubernetes\"\n" + c.containers + "\n[kubernetes]\n" + c.kubernetes + "\n" +
			c.more + stages
		_, problems := Parse("c.toml", []byte(text), nil, nil)
		if err := problems.Err(); c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", text, err, c.want)
		}
	}
	if _, problems := Parse("c.toml", []byte("[kubernetes]\nnamespace = \"a\"\n"+stages), nil,
		nil); problems.Err() != nil {
		t.Errorf("without the runtime, the settings are not required: %v", problems.Err())
	}
}
