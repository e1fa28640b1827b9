# node.sh: starts containerd and the kubelet in the cluster's mount, PID (and network) namespaces. ns.sh sources it.
mkdir -p sysctl kubelet containerd/{root,state,opt} cni/net.d pods-log
# containerd, CNI and the kubelet write to these paths regardless of their configuration. Mounts in this namespace hide
# the paths, so the machine stays unchanged.
for d in /run/containerd /run/netns /var/lib/cni /etc/cni /var/lib/kubelet /var/log/containers /var/log/pods; do
  [ -d $d ] || { mkdir -p $d; echo $d >> made-dirs; }; mount -t tmpfs tmpfs $d
done
mount --bind pods-log /var/log/pods; mount --bind kubelet kubelet; mount --make-rshared kubelet; mount --make-rshared /run/netns
# The kubelet requires certain values of three sysctls, and would otherwise change them on the machine. These files
# contain the required values.
fake() { echo "$2" > "sysctl/$(basename "$1")"; mount --bind "sysctl/$(basename "$1")" "$1"; }
fake /proc/sys/vm/overcommit_memory 1; fake /proc/sys/kernel/panic 10; fake /proc/sys/kernel/panic_on_oops 1
cat > cni/net.d/10-kt.conflist <<X
{"cniVersion":"0.4.0","name":"kt","plugins":[{"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","dataDir":"$KT/cni/ipam","ranges":[[{"subnet":"$POD_CIDR"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
X
cat > containerd.toml <<X
version = 2
root = "$KT/containerd/root"
state = "$KT/containerd/state"
[grpc]
  address = "$KT/sock/containerd.sock"
[ttrpc]
  address = "$KT/sock/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "$KT/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "retake.test/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$SNAPSHOTTER"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNIBIN"
    conf_dir = "$KT/cni/net.d"
X
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then mkdir -p "/sys/fs/cgroup$cgroot" # v2 is untested
else # cgroup v1
  for c in memory cpu cpuacct cpuset pids devices freezer blkio systemd; do mkdir -p /sys/fs/cgroup/$c$cgroot; done
  for f in cpuset.cpus cpuset.mems; do cat /sys/fs/cgroup/cpuset/$f > /sys/fs/cgroup/cpuset$cgroot/$f; done
fi
run containerd containerd -c containerd.toml
for _ in $(seq 100); do ctr -a sock/containerd.sock version > /dev/null 2>&1 && break; sleep 0.1; done
for t in "$IMG"/*.tar; do ctr -a sock/containerd.sock -n k8s.io images import --snapshotter "$SNAPSHOTTER" "$t" >> log/import.log 2>&1; done
cat > kubelet.yaml <<X
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: $((API_PORT+5))
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: $cgroot
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$KT/sock/containerd.sock
makeIPTablesUtilChains: false
oomScoreAdj: 0
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
nodeStatusUpdateFrequency: $NODE_STATUS_UPDATE
nodeLeaseDurationSeconds: $NODE_LEASE
volumePluginDir: $KT/kubelet/plugins-exec
X
echo "cd $KT; exec $H kubelet --config=kubelet.yaml --kubeconfig=node.conf --root-dir=$KT/kubelet --cert-dir=$KT/pki/kubelet --hostname-override=localhost >> log/kubelet.log 2>&1 < /dev/null" > kubelet.sh
run kubelet-start bash kubelet.sh
