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
	"time"

	"go.uber.org/zap"

	"retake/internal/container"
)

// Options select the cluster and the fleet.
type Options struct {
	Fleet string // as in container.Options
	// Owner is the permanent name of the installation that creates this fleet's attempts. Open refuses a fleet with
	// another owner's attempts, and List omits them.
	Owner       string
	Namespace   string // defaults to the namespace from the kubeconfig or the director's pod
	Kubeconfig  string // path; defaults to KUBECONFIG or ~/.kube/config, then to the account of the director's pod
	WorkerImage string // image with the program "worker" in its PATH
	PodTemplate string // path of a file, or empty
	Address     string // the director's address for pods, or empty if pods do not need it
	Pod         string // name of this process's pod in the same namespace, or empty; see MarkLeader
	// Grace is the pods' time between SIGTERM and SIGKILL, in whole seconds, at least 1.
	Grace  time.Duration
	Sample container.Spec // a typical attempt; if it has an Image, Open submits its pod as a dry run
	Log    *zap.Logger    // may be nil

	wrap func(http.RoundTripper) http.RoundTripper // for tests that count requests
}

// limits holds the package's timeouts and intervals.
type limits struct {
	operation time.Duration // one request
	kubelet   time.Duration // from the end of a container until the API reports it
	confirm   time.Duration // from a deletion to its confirmation
	streams   time.Duration // from the end of a container to the end of its log
	backoff   time.Duration // first wait before watching again; doubles to maxBackoff
	stale     time.Duration // lifetime of the view without a watch
	relist    time.Duration // interval between lists while the watch works
	podless   time.Duration // delay before asking why a Job's pod is missing; later checks wait four times as long
	poll      time.Duration // interval between checks for changes that the watch may miss
}

const maxBackoff = 5 * time.Second

// watchFor is the duration of one watch. The API ends it, and the next one continues from there.
const watchFor = 5 * time.Minute

var defaultLimits = limits{
	operation: time.Minute, kubelet: 15 * time.Second, confirm: 30 * time.Second, streams: 5 * time.Second,
	backoff: 100 * time.Millisecond,
	stale:   30 * time.Second, relist: 10 * time.Minute, podless: 3 * time.Second, poll: time.Second,
}

// Kubernetes runs attempts as Jobs in a cluster. It is safe for concurrent use. Operations on the same attempt wait for
// each other.
type Kubernetes struct {
	o       Options
	log     *zap.Logger
	limits  limits
	objects *objects
	view    *view
	logs    *logs
}

var _ container.Runtime = (*Kubernetes)(nil)

var fleetForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// Open connects to the API, lists the fleet's objects, and begins to watch them. Errors: ErrCluster (transient) if the
// API does not answer; ErrSpec for invalid options or templates, missing rights, and another director's attempts in the
// fleet.
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
		Next: "set kubernetes.kubeconfig, or run the director in the cluster",
	}
}

func open(ctx context.Context, api cluster, o Options, l limits) (*Kubernetes, error) {
	switch {
	case !fleetForm.MatchString(o.Fleet):
		return nil, refused("open", "fleet %q: want letters, digits, '_', '.', '-'", o.Fleet)
	case o.WorkerImage == "":
		return nil, refused("open", "set kubernetes.worker_image to an image that contains the worker program")
	case o.Grace < time.Second || o.Grace%time.Second != 0:
		return nil, refused("open", "grace %v: want whole seconds, at least 1", o.Grace)
	}
	objects, err := newObjects(api, o)
	if err != nil {
		return nil, err
	}
	log := cmp.Or(o.Log, zap.NewNop())
	view := newView(objects, l, log)
	k := &Kubernetes{
		o: o, log: log, limits: l, objects: objects, view: view,
		logs: &logs{api: api, view: view, limits: l, log: log},
	}
	asking, done := context.WithTimeout(ctx, l.operation)
	defer done()
	if err := objects.refuseForeign(asking); err != nil {
		return nil, err
	}
	if err := k.tryRoom(asking); err != nil {
		return nil, err
	}
	from, err := view.relist(asking)
	if err != nil {
		return nil, err
	}
	log.Info("running workers as Jobs in a cluster", zap.String("server", api.server()),
		zap.Strings("cannot", Cannot()))
	view.work.Go(func() { view.follow(from) })
	view.work.Go(view.askWhy)
	return k, nil
}

// refuseForeign returns an error if the fleet has another installation's attempts, because each director would remove
// the other's attempts as unknown workers.
func (o *objects) refuseForeign(ctx context.Context) error {
	found, err := o.jobs(ctx, o.ofFleet())
	if err != nil {
		return failure("list jobs", err)
	}
	var foreign []string
	for _, j := range found {
		if j.Labels[container.LabelOwner] != labelValue(o.owner) {
			foreign = append(foreign, j.Name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	return &container.Error{
		Kind: container.ErrSpec, Doing: "open",
		Cause: fmt.Errorf("fleet %s has jobs that belong to another director or to a lost data directory (%s)", o.fleet,
			strings.Join(foreign, ", ")),
		Next: "give this director a unique director.fleet, or, if no other director is running, remove them: kubectl " +
			"delete jobs -l " + o.ofFleet(),
	}
}

// tryRoom submits the sample's pod as a dry run. If a quota is exhausted, it logs the error instead of returning it.
func (k *Kubernetes) tryRoom(ctx context.Context) error {
	if k.o.Sample.Image == "" {
		return nil
	}
	err := k.objects.admit(ctx, k.o.Sample)
	if errors.Is(err, container.ErrNoRoom) {
		k.log.Warn("cluster has no room for an attempt", zap.Error(err))
		return nil
	}
	return err
}

// admit submits an attempt's pod as a dry run.
func (o *objects) admit(ctx context.Context, s container.Spec) error {
	if err := check(s); err != nil {
		return err
	}
	if err := o.tryPod(ctx, asPod(o.jobOf(s, 1))); err != nil {
		return failure("dry-run the pod of an attempt", err)
	}
	return nil
}

// check refuses unsupported specs.
func check(s container.Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	doing := "attempt " + s.AttemptID
	if len(s.Mounts) > 0 {
		return &container.Error{
			Kind: container.ErrSpec, Doing: doing,
			Cause: fmt.Errorf("cannot mount %s: this machine's directories are not on the cluster nodes",
				s.Mounts[0].Source),
			Next: "define the workers' volumes in kubernetes.pod_template",
		}
	}
	if !path.IsAbs(s.Entrypoint[0]) {
		return refused(doing, "entrypoint %q: want an absolute path", s.Entrypoint[0])
	}
	return nil
}

// EnsureNetwork returns the director's address for pods. The cluster provides the network.
func (k *Kubernetes) EnsureNetwork(context.Context) (string, error) { return k.o.Address, nil }

// EnsureImage does nothing, because nodes pull images.
func (k *Kubernetes) EnsureImage(context.Context, string) error { return nil }

// Workdir returns the path of the worker's checkout, a volume that is empty at first.
func (k *Kubernetes) Workdir(s container.Spec) string { return s.Workdir }

// Adopt does nothing, because Open lists the attempts and the cluster keeps the logs.
func (k *Kubernetes) Adopt(context.Context, string) error { return nil }

// Close leaves attempts running.
func (k *Kubernetes) Close() error {
	k.view.cancel()
	k.view.work.Wait()
	return nil
}

// Warm does nothing.
func (k *Kubernetes) Warm(context.Context) {}

// List returns all attempts of this fleet according to the watch. Error: ErrCluster if the watch has been broken for
// some time.
func (k *Kubernetes) List(context.Context) ([]container.Status, error) { return k.view.list() }

// Find returns one attempt's entry in List.
func (k *Kubernetes) Find(_ context.Context, attemptID string) (s container.Status, found bool, err error) {
	return k.view.find(attemptID)
}

// Watch calls changed from one goroutine, once at the start and then whenever the list may have changed. It returns
// ctx's error.
func (k *Kubernetes) Watch(ctx context.Context, changed func()) error {
	changes, stop := k.view.subscribe()
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
