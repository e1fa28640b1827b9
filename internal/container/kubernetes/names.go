package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"retake/internal/container"
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	noName    = regexp.MustCompile(`[^a-z0-9]+`)
	noLabel   = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// Lengths: the controller adds six characters to a Job's name for its pod's, whose host name may have 63.
const (
	nameLength  = 52
	labelLength = 63
	sumLength   = 8
)

// jobName is that of an attempt's Job, for ever: the id itself where it can be a name, else what can be of it
// and a sum.
func jobName(attemptID string) string {
	if name := "retake-" + attemptID; len(name) <= nameLength && nameForm.MatchString(name) {
		return name
	}
	readable := strings.Trim(noName.ReplaceAllString(strings.ToLower(attemptID), "-"), "-")
	return "retake-" + shortened(readable, nameLength-len("retake-")-sumLength-1) + "-" + sum(attemptID)
}

// labelValue is the text itself where it can be a label's value, else what can be of it and a sum. The text is
// an annotation, too.
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

// ours selects everything of this fleet and owner.
func (k *Kubernetes) ours() string {
	return k.ofFleet() + "," + container.LabelOwner + "=" + labelValue(k.o.Owner)
}

func (k *Kubernetes) ofFleet() string { return container.LabelFleet + "=" + labelValue(k.o.Fleet) }

func ofAttempt(attemptID string) string {
	return labels.Set{container.LabelAttempt: labelValue(attemptID)}.String()
}

// labelled are the labels and annotations of an attempt's objects, over those of the template.
func (k *Kubernetes) labelled(s container.Spec) (label, note map[string]string) {
	label, note = maps.Clone(k.template.Labels), maps.Clone(k.template.Annotations)
	if label == nil {
		label = map[string]string{}
	}
	if note == nil {
		note = map[string]string{}
	}
	maps.Copy(label, map[string]string{
		container.LabelFleet: labelValue(k.o.Fleet), container.LabelOwner: labelValue(k.o.Owner),
		container.LabelTask: labelValue(s.Task), container.LabelAttempt: labelValue(s.AttemptID),
	})
	maps.Copy(note, map[string]string{container.LabelTask: s.Task, container.LabelAttempt: s.AttemptID})
	return label, note
}
