package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"retake/internal/container"
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	noName    = regexp.MustCompile(`[^a-z0-9]+`)
	noLabel   = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// Lengths of names. The controller forms a pod's name by appending six characters to its Job's name, and a host name
// has at most 63.
const (
	nameLength  = 52
	labelLength = 63
	sumLength   = 8
)

// jobName returns the permanent name of an attempt's Job. It contains the id if that makes a valid name. Otherwise it
// contains the valid parts of the id and a checksum.
func jobName(attemptID string) string {
	if name := "retake-" + attemptID; len(name) <= nameLength && nameForm.MatchString(name) {
		return name
	}
	readable := strings.Trim(noName.ReplaceAllString(strings.ToLower(attemptID), "-"), "-")
	return "retake-" + shortened(readable, nameLength-len("retake-")-sumLength-1) + "-" + sum(attemptID)
}

// labelValue returns the text if it is a valid label value. Otherwise it returns the valid parts and a checksum, and an
// annotation keeps the original text.
func labelValue(text string) string {
	if text == "" || len(text) <= labelLength && labelForm.MatchString(text) {
		return text
	}
	readable := strings.Trim(noLabel.ReplaceAllString(text, "-"), "-_.")
	return strings.TrimLeft(shortened(readable, labelLength-sumLength-1)+"-"+sum(text), "-")
}

func shortened(s string, most int) string { return strings.TrimRight(s[:min(len(s), most)], "-_.") }

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])[:sumLength]
}

// manifests defines the API objects of attempts.
type manifests struct {
	fleet, owner string
	workerImage  string
	grace        time.Duration
	template     corev1.PodTemplateSpec
}

// ours selects all objects of this fleet and owner.
func (m *manifests) ours() string {
	return m.ofFleet() + "," + container.LabelOwner + "=" + labelValue(m.owner)
}

func (m *manifests) ofFleet() string { return container.LabelFleet + "=" + labelValue(m.fleet) }

func ofAttempt(attemptID string) string {
	return labels.Set{container.LabelAttempt: labelValue(attemptID)}.String()
}

// labelled returns the labels and annotations of an attempt's objects. They override the template's labels and
// annotations.
func (m *manifests) labelled(s container.Spec) (label, note map[string]string) {
	label, note = maps.Clone(m.template.Labels), maps.Clone(m.template.Annotations)
	if label == nil {
		label = map[string]string{}
	}
	if note == nil {
		note = map[string]string{}
	}
	maps.Copy(label, map[string]string{
		container.LabelFleet: labelValue(m.fleet), container.LabelOwner: labelValue(m.owner),
		container.LabelTask: labelValue(s.Task), container.LabelAttempt: labelValue(s.AttemptID),
	})
	maps.Copy(note, map[string]string{container.LabelTask: s.Task, container.LabelAttempt: s.AttemptID})
	return label, note
}
