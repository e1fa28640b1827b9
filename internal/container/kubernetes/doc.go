// Package kubernetes runs each attempt as a Job of a cluster. It is the third implementation of container.Runtime,
// under the same test suite as Docker and plain processes. The cluster handles placement, quotas and lost nodes. The
// director handles the consequences.
//
// # Invariant
//
// An attempt id names at most one Job, and a Job creates at most one pod, forever: backoffLimit 0, podReplacementPolicy
// Failed, restartPolicy Never. Every operation is idempotent by that name. The Job is created first, followed by its
// Secrets, which it owns:
//
//	Ensure  no Job       -> Job, Secrets
//	        Job          -> missing Secrets, after an interrupted Ensure; a pod without them waits and cannot start
//	        begun, ended -> unchanged
//	Stop    absent       -> Exit{Known: false}
//	        pending      -> removed; Exit says what it waited for, and StartError if a start failed
//	        running      -> ended, collected, recorded, removed
//	        ended        -> collected, recorded, removed
//
// An interruption leaves nothing permanently. Secrets are deleted with their Job. A pod that never starts or never ends
// has a deadline (Spec.Life), and the Job is removed by its time to live.
//
// # How a pod is ended
//
// Deleting a pod also removes exit code and log. They would be lost if the director is killed before it reads them.
// So Stop sets the pod's deadline to a second and marks the pod. The kubelet sends SIGTERM, SIGKILL after
// Options.Grace, and keeps pod, exit code and log (measured: 0.9 s until the status of an obedient one). They are
// collected and recorded before the Job is deleted with everything. A stop with a shorter grace deletes the pod at
// once, and reads the log meanwhile. The kubelet then sends SIGTERM too, and waits at least two seconds. Deleting a
// pod that is already ending does not shorten its grace (containerd 1.6), so pods always have Options.Grace.
//
// A pod is never deleted without its kubelet's confirmation (grace 0), so "gone" means that the kubelet has confirmed
// it. If the kubelet does not answer, Stop fails with ErrUnconfirmed after a bounded wait, and can be called again.
//
// # The list
//
// Pods are watched instead of Jobs, because a container's end shows in its pod one to two seconds before it shows in
// the Job. List answers from a view that the watch maintains. Everything is listed only at Open, after 410 Gone and
// every ten minutes. A broken watch is restarted forever. Without a watch the view is valid for 30 seconds, and then
// List fails, because an old list would declare live attempts dead. Ensure and Stop ask the API itself. The deletion
// of a Job that never had a pod only shows in the next list.
//
// A Job does not say why it has no pod. A dry run of that pod fails for the same reason as the controller's, such as a
// quota or a policy. This needs the right to create pods, which is not used otherwise.
//
// # The worker's environment
//
// Files, variables and standard input are one bundle (package bundle) in the attempt's Secrets, which only an init
// container mounts. It unpacks them into memory, with a copy of our program. The Workdir is an empty volume.
// Spec.Checkout and Spec.WorkerBinary are unused, because nodes have no files of this machine, and Spec.Mounts are
// refused. With a read-only root file system, HOME is the empty folder /home/retake unless Spec.Env has another,
// because the homes of an image's users are unknown here. Root file system, capabilities, user, privileges and system
// calls comply with the restricted pod security standard. A pod cannot limit its processes (Spec.Pids). The kubelet's
// podPidsLimit does.
//
// # Output
//
// The log API merges both streams. The result is called stdout, and Exit.Stderr is empty. A node keeps the newest 10
// MiB (containerLogMaxSize). FollowOutput reports a missing beginning, which it detects by the first line that every
// attempt prints. After somebody else has removed a pod, the output is what was followed before, or the last 2 KB
// from the pod's status.
//
// # Clock
//
// No decision compares the cluster's clock with ours.
//
// # Failure policy
//
// As in package container. A missing answer of the API and unclassified errors are ErrCluster (transient). A missing
// right or a policy is ErrSpec with its name. A quota for Jobs is ErrNoRoom (transient).
package kubernetes
