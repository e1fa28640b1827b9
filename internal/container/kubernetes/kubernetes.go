package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"retake/internal/container"
)

// Options choose the cluster, and which part of it is ours.
type Options struct {
	Fleet string // as in container.Options
	// who makes attempts of this fleet, for ever; others' are not listed, and refused by Open
	Owner       string
	Namespace   string // empty: that of the kubeconfig or of the director's pod
	Kubeconfig  string // path; empty: the director's pod's account, or what KUBECONFIG names
	WorkerImage string // image with our own program "worker" in its PATH
	PodTemplate string // path of a file; empty: none
	Address     string // at which pods reach this director; empty: there is no need
	Pod         string // that this process runs in, in the same namespace; empty: in none. See MarkLeader
	// whole seconds, at least 1: what pods get between SIGTERM and SIGKILL, whoever ends them
	Grace  time.Duration
	Sample container.Spec // what attempts will be like, for a dry run by Open; no Image: none is made
	Log    *zap.Logger    // nil: silent

	wrap func(http.RoundTripper) http.RoundTripper // for tests that count requests
}

// limits bound how long one operation waits.
type limits struct {
	operation time.Duration // one request
	kubelet   time.Duration // from the end of a container to the API's word of it
	confirm   time.Duration // from a deletion to its confirmation
	streams   time.Duration // from the end of a container to the end of its log
	backoff   time.Duration // first wait before the watch is asked for again; doubles to maxBackoff
	stale     time.Duration // for how long a list without a watch is good
	relist    time.Duration // between two lists, while the watch works
	podless   time.Duration // from a Job to the question why it has no pod, and between two of them
	poll      time.Duration // between two looks at something that a watch may not tell
}

const maxBackoff = 5 * time.Second

// watchFor is how long one watch lasts; the API ends it, and the next one goes on where it was.
const watchFor = 5 * time.Minute

var defaultLimits = limits{
	operation: time.Minute, kubelet: 15 * time.Second, confirm: 30 * time.Second, streams: 5 * time.Second,
	backoff: 100 * time.Millisecond,
	stale:   30 * time.Second, relist: 10 * time.Minute, podless: 3 * time.Second, poll: time.Second,
}

// Kubernetes runs attempts as Jobs of a cluster. Safe for concurrent use; operations on the same attempt wait
// for each other.
type Kubernetes struct {
	api      cluster
	o        Options
	log      *zap.Logger
	limits   limits
	template corev1.PodTemplateSpec

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	view
}

var _ container.Runtime = (*Kubernetes)(nil)

var fleetForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// Open connects to the API, lists what is there, and begins to watch it. Errors: ErrCluster (transient) if it
// does not answer; ErrSpec for what is wrong with the options, the template or our rights, and if attempts of
// the fleet are another director's.
func Open(ctx context.Context, o Options) (*Kubernetes, error) {
	api, err := connect(o.Kubeconfig, o.Namespace, o.wrap)
	if err != nil {
		return nil, notConnected(err)
	}
	return open(ctx, api, o, defaultLimits)
}

func notConnected(err error) *container.Error {
	return &container.Error{
		Kind: container.ErrSpec, Doing: "open", Cause: err,
		Next: "set kubernetes.kubeconfig, or run the director in a pod of the cluster",
	}
}

func open(ctx context.Context, api cluster, o Options, l limits) (*Kubernetes, error) {
	switch {
	case !fleetForm.MatchString(o.Fleet):
		return nil, refused("open", "fleet %q: want letters, digits, '_', '.', '-'", o.Fleet)
	case o.WorkerImage == "":
		return nil, refused("open", "no image with the worker's program: set kubernetes.worker_image")
	case o.Grace < time.Second || o.Grace%time.Second != 0:
		return nil, refused("open", "grace %v: want whole seconds, at least 1", o.Grace)
	}
	template, err := readTemplate(o.PodTemplate)
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{api: api, o: o, log: cmp.Or(o.Log, zap.NewNop()), limits: l, template: template, view: newView()}
	asking, done := context.WithTimeout(ctx, l.operation)
	defer done()
	if err := k.refuseForeign(asking); err != nil {
		return nil, err
	}
	if err := k.try(asking); err != nil {
		return nil, err
	}
	from, err := k.list(asking)
	if err != nil {
		return nil, err
	}
	k.log.Info("workers are jobs of a cluster", zap.String("server", api.server()), zap.Strings("cannot", Cannot()))
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.work.Go(func() { k.follow(from) })
	k.work.Go(k.askWhy)
	return k, nil
}

// refuseForeign refuses a fleet whose attempts another installation has made: each of the two would remove the
// other's as unknown workers.
func (k *Kubernetes) refuseForeign(ctx context.Context) error {
	found, err := k.api.jobs(ctx, k.ofFleet())
	if err != nil {
		return failure("list jobs", err)
	}
	var foreign []string
	for _, j := range found {
		if j.Labels[container.LabelOwner] != labelValue(k.o.Owner) {
			foreign = append(foreign, j.Name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	return &container.Error{
		Kind: container.ErrSpec, Doing: "open",
		Cause: fmt.Errorf("fleet %s has jobs of another director, or of a data directory that is lost (%s)", k.o.Fleet,
			strings.Join(foreign, ", ")),
		Next: "give this director a director.fleet of its own; if no other one runs, remove them: kubectl " +
			"delete jobs -l " + k.ofFleet(),
	}
}

// try shows the API a pod like those of attempts. What there is no room for now is no reason not to start.
func (k *Kubernetes) try(ctx context.Context) error {
	if k.o.Sample.Image == "" {
		return nil
	}
	sample := k.o.Sample
	if err := check(sample); err != nil {
		return err
	}
	err := k.api.tryPod(ctx, asPod(k.jobOf(sample, 1)))
	if err == nil {
		return nil
	}
	e := failure("dry run of an attempt's pod", err)
	if errors.Is(e, container.ErrNoRoom) {
		k.log.Warn("there is no room for an attempt now", zap.Error(e))
		return nil
	}
	return e
}

// check refuses what this package cannot do, before the API is asked.
func check(s container.Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	doing := "attempt " + s.AttemptID
	if len(s.Mounts) > 0 {
		return &container.Error{
			Kind: container.ErrSpec, Doing: doing,
			Cause: fmt.Errorf("mount of %s: nodes have no folders of this machine", s.Mounts[0].Source),
			Next:  "volumes for workers come from kubernetes.pod_template",
		}
	}
	if !path.IsAbs(s.Entrypoint[0]) {
		return refused(doing, "entrypoint %q: want an absolute path", s.Entrypoint[0])
	}
	return nil
}

// EnsureNetwork returns the address at which pods reach this director: the cluster has the network.
func (k *Kubernetes) EnsureNetwork(context.Context) (string, error) { return k.o.Address, nil }

// EnsureImage has nothing to do: nodes pull what they need.
func (k *Kubernetes) EnsureImage(context.Context, string) error { return nil }

// Workdir returns where the worker of a spec finds its checkout: in a volume that is empty at first.
func (k *Kubernetes) Workdir(s container.Spec) string { return s.Workdir }

// Adopt has nothing to do: what is there is known since Open, and the cluster keeps the logs.
func (k *Kubernetes) Adopt(context.Context, string) error { return nil }

// Close leaves attempts running.
func (k *Kubernetes) Close() error {
	k.cancel()
	k.work.Wait()
	return nil
}

// Warm has nothing to do.
func (k *Kubernetes) Warm(context.Context) {}

// List returns all attempts of this fleet as the watch has told them. Error: ErrCluster if there has been no
// watch for some time.
func (k *Kubernetes) List(context.Context) ([]container.Status, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.blind(); err != nil {
		return nil, err
	}
	list := []container.Status{}
	for id, a := range k.attempts {
		if a.known() {
			list = append(list, a.status(id))
		}
	}
	container.SortStatuses(list)
	return list, nil
}

// Find returns what List would say of one attempt.
func (k *Kubernetes) Find(_ context.Context, attemptID string) (s container.Status, found bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.blind(); err != nil {
		return s, false, err
	}
	a := k.attempts[attemptID]
	if a == nil || !a.known() {
		return s, false, nil
	}
	return a.status(attemptID), true, nil
}

// blind is the error of who has had no watch for some time. The caller holds the mutex.
func (k *Kubernetes) blind() error {
	if k.broken.IsZero() || time.Since(k.broken) <= k.limits.stale {
		return nil
	}
	return failure("list attempts", fmt.Errorf("%s has not been reached for %v: %w", k.api.server(),
		time.Since(k.broken).Round(time.Second), k.why))
}

// Watch calls changed, from one goroutine, at the beginning and when the list may have changed, until ctx ends;
// it returns ctx's error.
func (k *Kubernetes) Watch(ctx context.Context, changed func()) error {
	changes, stop := k.subscribe()
	defer stop()
	for {
		changed()
		select {
		case <-changes:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
