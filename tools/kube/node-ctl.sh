#!/bin/bash
# node-ctl.sh kill|pause|cont|start: controls the node's kubelet, to simulate a lost node and its return. Containers
# continue.
. "$(dirname "$0")/env.sh"; n=$(cat "$KT/ns.pid") || exit 1
kubelet() { ps -o pid=,args= --ppid "$n" | awk '/ kubelet --config/ {print $1}'; cat "$KT/kubelet.hostpid" 2>/dev/null; }
case $1 in
  kill) for p in $(kubelet); do kill -KILL "$p" 2>/dev/null; done; rm -f "$KT/kubelet.hostpid" ;;
  pause) for p in $(kubelet); do kill -STOP "$p"; done ;;
  cont) for p in $(kubelet); do kill -CONT "$p"; done ;;
  start) nsenter -t "$n" -m -p -n setsid bash "$KT/kubelet.sh" > /dev/null 2>&1 < /dev/null & sleep 1; ps -o pid=,args= --ppid $! | awk '/ kubelet/ {print $1}' > "$KT/kubelet.hostpid" ;;
esac
