package kubernetes

import (
	"context"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// cluster is the part of the API that this package uses, in one namespace. Each method requires the right named in its
// comment (see Needed) and returns the API's error.
type cluster interface {
	createJob(ctx context.Context, j *batchv1.Job) (*batchv1.Job, error) // jobs: create
	job(ctx context.Context, name string) (*batchv1.Job, error)          // jobs: get
	jobs(ctx context.Context, selector string) ([]batchv1.Job, error)    // jobs: list
	// jobs: delete; includes owned objects
	deleteJob(ctx context.Context, name string, uid types.UID) error
	createSecret(ctx context.Context, s *corev1.Secret) error // secrets: create
	// pods: create, as a dry run
	tryPod(ctx context.Context, p *corev1.Pod) error
	// pods: list; watchPods continues at the returned version
	pods(ctx context.Context, selector string) (all []corev1.Pod, at string, err error)
	watchPods(ctx context.Context, selector, from string) (watch.Interface, error)       // pods: watch
	patchPod(ctx context.Context, name string, patch []byte) (*corev1.Pod, error)        // pods: patch
	deletePod(ctx context.Context, name string, uid types.UID, graceSeconds int64) error // pods: delete
	log(ctx context.Context, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) // pods/log: get
	// requires no rights
	may(ctx context.Context, verb, group, resource, subresource string) (ok bool, err error)
	server() string
}

// Right is one verb on one resource.
type Right struct{ Verb, Group, Resource, Subresource string }

// String formats a right as verb and resource, such as "get pods/log".
func (r Right) String() string {
	of := r.Resource
	if r.Subresource != "" {
		of += "/" + r.Subresource
	}
	return r.Verb + " " + of
}

// Needed lists exactly the rights that a director needs in its namespace.
func Needed() []Right {
	return []Right{
		{"create", "batch", "jobs", ""},
		{"get", "batch", "jobs", ""},
		{"list", "batch", "jobs", ""},
		{"delete", "batch", "jobs", ""},
		{"create", "", "pods", ""}, // for dry runs only
		{"list", "", "pods", ""},
		{"watch", "", "pods", ""},
		{"patch", "", "pods", ""},
		{"delete", "", "pods", ""},
		{"get", "", "pods", "log"},
		{"create", "", "secrets", ""},
	}
}
