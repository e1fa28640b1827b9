// Package kubernetes runs each attempt as a Job of a cluster. It is the third implementation of
// container.Runtime, under the same suite of tests as Docker and plain processes. Placing, quotas and the loss
// of nodes are the cluster's business; what follows from them is the director's.
//
// # Invariant
//
// One attempt id names at most one Job, and a Job makes at most one pod, for ever: backoffLimit 0,
// podReplacementPolicy Failed, restartPolicy Never. Every operation is idempotent by that name. The Job is made
// first, and its Secrets, which it owns, right after it:
//
//	Ensure  no Job       -> Job, Secrets
//	        Job          -> the Secrets that are missing: an earlier Ensure was cut off. A pod without them waits, and cannot start
//	        begun, ended -> left alone
//	Stop    absent       -> Exit{Known: false}
//	        pending      -> removed; Exit says what it has waited for, and StartError if a start was tried and failed
//	        running      -> ended, collected, recorded, removed
//	        ended        -> collected, recorded, removed
//
// Whatever is cut off leaves nothing for ever: Secrets go with their Job; a Job whose pod never starts or never
// ends is ended by the pod's own bound of its life (Spec.Life), and removed by its time to live.
//
// # How a pod is ended
//
// A deletion takes exit code and log away with the pod, before anybody has read them, and they are lost for
// good if the director is killed then. So Stop sets the pod's own bound of its life to a second, and writes on
// the pod that it has: the kubelet sends SIGTERM, and SIGKILL after Options.Grace, and leaves pod, exit code
// and log (measured: 0.9 s to the status of one that obeys). They are collected and recorded, and only then the
// Job is deleted with everything. A stop with less than that grace, or without one, deletes the pod at once,
// with its log being read from before; the kubelet sends SIGTERM in any case, and gives two seconds at least. A
// deletion of a pod that is ending already does not shorten its grace (containerd 1.6), which is why
// Options.Grace is what pods get, whoever ends them.
//
// Never is a pod deleted without its kubelet's word (grace 0): "gone" means that the kubelet has said so. One
// that does not answer confirms nothing; then Stop fails with ErrUnconfirmed after a bounded wait, and can be
// called again.
//
// # The list
//
// Pods are watched, not Jobs: a container's end shows in its pod one to two seconds before it shows in the Job.
// The watch keeps a view that List answers from; all is listed at Open, after 410 Gone and every ten minutes,
// and never else. A watch that breaks is asked for again for ever. Without one the view is good for 30 seconds,
// then List fails: an old list would call the living dead. Ensure and Stop ask the API itself. That a Job was
// deleted whose pod was never made shows with the next list only.
//
// A Job does not say why it has no pod. The API is shown that pod in a dry run, and refuses it for the same
// reason as the controller's: a quota, a rule. That needs the right to create pods, which is used for nothing
// else.
//
// # What a worker gets
//
// Files, variables and standard input are one bundle (package bundle) in the attempt's Secrets, which an init
// container alone sees; it unpacks them, and a copy of our program, into memory. The Workdir is a volume that
// is empty at first: Spec.Checkout and Spec.WorkerBinary are not used, since nodes have no files of this
// machine, and Spec.Mounts are refused. Where the root file system is read-only HOME is /home/retake, an empty
// folder, unless Spec.Env says another: what an image has for its users cannot be known here. Root file system,
// capabilities, user, privileges and system calls are as the restricted level of the pod security standards
// wants them. A limit on processes (Spec.Pids) cannot be set for a pod: it is the kubelet's podPidsLimit.
//
// # Output
//
// The log API has both streams as one; it is called stdout, and Exit.Stderr is empty. A node keeps the newest
// 10 MiB (containerLogMaxSize): where the beginning is gone, FollowOutput says so, which it knows from the
// first line that every attempt prints and nobody sees. Of a pod that somebody else has removed there is what
// was followed, or the last 2 KB, which the pod's status has.
//
// # Clock
//
// No decision compares the cluster's clock with ours.
//
// # Failure policy
//
// As in package container. An API that does not answer, and whatever no row of failures knows, is ErrCluster
// (transient); a missing right or a rule is ErrSpec, and says which; a quota for Jobs is ErrNoRoom (transient).
package kubernetes
