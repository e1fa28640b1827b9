// Package kubernetes runs each attempt as a Kubernetes Job. It is the third implementation of container.Runtime, and
// passes the same test suite as Docker and plain processes. The cluster handles placement, quotas and lost nodes. The
// director decides what happens to an attempt that the cluster has ended.
//
// # Invariant
//
// An attempt id names at most one Job, and a Job creates at most one pod, forever. Its backoffLimit is 0, its
// podReplacementPolicy is Failed, and the restartPolicy is Never. Every operation is idempotent by that name. The Job
// is created first, followed by its Secrets, which it owns:
//
//	Ensure  no Job       -> Job, Secrets
//	        Job          -> missing Secrets, after an interrupted Ensure (a pod waits for its Secrets)
//	        begun, ended -> unchanged
//	Stop    absent       -> Exit{Known: false}
//	        pending      -> removed, Exit has the reason for the wait, and StartError after a failed start
//	        running      -> ended, collected, recorded, removed
//	        ended        -> collected, recorded, removed
//
// An interrupted operation never leaves permanent objects. The cluster deletes Secrets with their Job. The deadline
// Spec.Life ends a pod that never starts or never ends, and the Job is then removed after its time to live.
//
// # Ending a pod
//
// Deleting a pod also removes its exit code and log, which would be lost if the director was killed before it read
// them. Stop therefore sets the pod's deadline to one second and marks the pod. The kubelet sends SIGTERM, and SIGKILL
// after Options.Grace, but keeps the pod with its exit code and log. In measurements, the status of a pod that obeyed
// SIGTERM arrived after 0.9 s. Stop records the exit code and log before it deletes the Job with all its objects.
//
// A stop with a shorter grace deletes the pod at once, and reads the log during the deletion. The kubelet then also
// sends SIGTERM, and waits at least two seconds. Deleting a pod that is already ending does not shorten its grace
// period (containerd 1.6), so pods always have Options.Grace.
//
// Stop never deletes a pod with grace 0, because the API would not wait for the kubelet. So "gone" means that the
// kubelet has confirmed the end. If the kubelet does not answer, Stop fails with ErrUnconfirmed after a bounded wait,
// and can be called again.
//
// # The list
//
// The package watches pods instead of Jobs, because a container's end shows in its pod one to two seconds before it
// shows in the Job. List answers from a view that the watch maintains. The package lists all objects only at Open,
// after 410 Gone and every ten minutes, and restarts a broken watch indefinitely. Without a watch, the view is valid
// for 30 seconds. After that, List fails, because a stale list would declare live attempts dead. Ensure and Stop ask
// the API directly. The watch does not report the deletion of a Job that never had a pod, so only the next list of all
// objects shows it.
//
// A Job does not report why its pod is missing. A dry run of that pod fails for the same reason as the controller's
// request, such as a quota or a policy. The right to create pods is used only for dry runs.
//
// # The worker's environment
//
// Files, variables and standard input are one bundle (package bundle) in the attempt's Secrets, which only an init
// container mounts. It unpacks them into memory, with a copy of our program. The Workdir is an empty volume.
// Spec.Checkout and Spec.WorkerBinary are ignored, and Spec.Mounts is refused, because this machine's files are not on
// the nodes. With a read-only root file system, HOME is the empty directory /home/retake unless Spec.Env sets it,
// because the image's home directories are unknown here. Root file system, capabilities, user, privileges and system
// calls comply with the restricted pod security standard. A pod cannot limit its processes (Spec.Pids), so the
// kubelet's podPidsLimit applies.
//
// # Output
//
// The log API merges both streams. The result is returned as stdout, and Exit.Stderr is empty. A node keeps the newest
// 10 MiB (containerLogMaxSize). FollowOutput detects a missing beginning by the first line, which every attempt prints.
// If a pod was removed externally, its output is the part that was read earlier, or the last 2 KB from the pod's
// status.
//
// # Clock
//
// Decisions never compare the cluster's clock with the local one.
//
// # Failure policy
//
// It is the same as in package container. ErrCluster (transient) covers unclassified errors and an API that does not
// answer. If a right is missing or a policy refuses the Job, the error is ErrSpec and names the right or the policy. An
// exhausted quota for Jobs causes ErrNoRoom (transient).
package kubernetes
