package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// client uses only the rest package, because the clientset would make the director's binary 50 % larger.
type client struct {
	core, batch *rest.RESTClient
	namespace   string
	host        string
}

var _ cluster = (*client)(nil)

var (
	scheme   = runtime.NewScheme()
	codecs   = serializer.NewCodecFactory(scheme)
	inQuery  = runtime.NewParameterCodec(scheme)
	agreedOn = "application/vnd.kubernetes.protobuf"
)

func init() {
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // only a programming error in these packages can cause this
		}
	}
}

// Limits on requests per second and per burst. The API enforces fairness itself, so these limits only guard against a
// bug in this package.
const (
	requestRate  = 50
	requestBurst = 100
	listPage     = 500 // maximum number of objects per response
)

// connect uses the named kubeconfig file, else KUBECONFIG or ~/.kube/config, else the account of this process's pod.
// The namespace defaults to the one in that configuration.
func connect(kubeconfig, namespace string, wrap func(http.RoundTripper) http.RoundTripper) (*client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, err
	}
	if namespace == "" {
		if namespace, _, err = loaded.Namespace(); err != nil {
			return nil, err
		}
	}
	config.UserAgent, config.QPS, config.Burst = "retake", requestRate, requestBurst
	config.WarningHandler = rest.NoWarnings{}
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = agreedOn, agreedOn+",application/json"
	if wrap != nil {
		config.Wrap(wrap)
	}
	c := &client{namespace: namespace, host: config.Host}
	if c.core, err = restFor(*config, corev1.SchemeGroupVersion, "/api"); err != nil {
		return nil, err
	}
	c.batch, err = restFor(*config, batchv1.SchemeGroupVersion, "/apis")
	return c, err
}

func restFor(config rest.Config, of schema.GroupVersion, path string) (*rest.RESTClient, error) {
	config.GroupVersion, config.APIPath = &of, path
	return rest.RESTClientFor(&config)
}

func (c *client) server() string { return c.host }

func (c *client) createJob(ctx context.Context, j *batchv1.Job) (*batchv1.Job, error) {
	made := &batchv1.Job{}
	return made, c.batch.Post().Namespace(c.namespace).Resource("jobs").Body(j).Do(ctx).Into(made)
}

func (c *client) job(ctx context.Context, name string) (*batchv1.Job, error) {
	j := &batchv1.Job{}
	return j, c.batch.Get().Namespace(c.namespace).Resource("jobs").Name(name).Do(ctx).Into(j)
}

func (c *client) jobs(ctx context.Context, selector string) (all []batchv1.Job, err error) {
	err = inPages(selector, func(o *metav1.ListOptions) (string, error) {
		var page batchv1.JobList
		err := c.batch.Get().Namespace(c.namespace).Resource("jobs").VersionedParams(o, inQuery).Do(ctx).Into(&page)
		all = append(all, page.Items...)
		return page.Continue, err
	})
	return all, err
}

// inPages lists objects page by page. It omits the resource version, so that the API does not answer from a stale
// cache.
func inPages(selector string, page func(*metav1.ListOptions) (next string, err error)) error {
	o := &metav1.ListOptions{LabelSelector: selector, Limit: listPage}
	for {
		next, err := page(o)
		if err != nil || next == "" {
			return err
		}
		o.Continue = next
	}
}

func (c *client) deleteJob(ctx context.Context, name string, uid types.UID) error {
	with := metav1.DeletePropagationBackground // by default, the pods would keep running
	o := &metav1.DeleteOptions{PropagationPolicy: &with, Preconditions: &metav1.Preconditions{UID: &uid}}
	return c.batch.Delete().Namespace(c.namespace).Resource("jobs").Name(name).Body(o).Do(ctx).Error()
}

func (c *client) createSecret(ctx context.Context, s *corev1.Secret) error {
	return c.core.Post().Namespace(c.namespace).Resource("secrets").Body(s).Do(ctx).Error()
}

func (c *client) tryPod(ctx context.Context, p *corev1.Pod) error {
	o := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	return c.core.Post().Namespace(c.namespace).Resource("pods").VersionedParams(o, inQuery).Body(p).Do(ctx).Error()
}

func (c *client) pods(ctx context.Context, selector string) (all []corev1.Pod, at string, err error) {
	err = inPages(selector, func(o *metav1.ListOptions) (string, error) {
		var page corev1.PodList
		err := c.core.Get().Namespace(c.namespace).Resource("pods").VersionedParams(o, inQuery).Do(ctx).Into(&page)
		all, at = append(all, page.Items...), page.ResourceVersion
		return page.Continue, err
	})
	return all, at, err
}

func (c *client) watchPods(ctx context.Context, selector, from string) (watch.Interface, error) {
	seconds := int64(watchFor.Seconds())
	o := &metav1.ListOptions{
		LabelSelector: selector, ResourceVersion: from, Watch: true, AllowWatchBookmarks: true,
		TimeoutSeconds: &seconds,
	}
	return c.core.Get().Namespace(c.namespace).Resource("pods").VersionedParams(o, inQuery).Watch(ctx)
}

func (c *client) patchPod(ctx context.Context, name string, patch []byte) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	return p, c.core.Patch(types.MergePatchType).Namespace(c.namespace).Resource("pods").Name(name).Body(patch).Do(ctx).
		Into(p)
}

func (c *client) deletePod(ctx context.Context, name string, uid types.UID, graceSeconds int64) error {
	o := &metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds, Preconditions: &metav1.Preconditions{UID: &uid}}
	return c.core.Delete().Namespace(c.namespace).Resource("pods").Name(name).Body(o).Do(ctx).Error()
}

func (c *client) log(ctx context.Context, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return c.core.Get().Namespace(c.namespace).Resource("pods").Name(pod).SubResource("log").VersionedParams(o,
		inQuery).Stream(ctx)
}

// may reports whether this process has a right. The request is plain JSON, because typed requests would need another
// scheme.
func (c *client) may(ctx context.Context, verb, group, resource, subresource string) (bool, error) {
	type attributes struct {
		Namespace   string `json:"namespace"`
		Verb        string `json:"verb"`
		Group       string `json:"group"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource,omitempty"`
	}
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			ResourceAttributes attributes `json:"resourceAttributes"`
		} `json:"spec"`
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	review.Spec.ResourceAttributes = attributes{c.namespace, verb, group, resource, subresource}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	answer, err := c.core.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return false, err
	}
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&review); err != nil {
		return false, fmt.Errorf("decode access review: %w", err)
	}
	return review.Status.Allowed, nil
}
