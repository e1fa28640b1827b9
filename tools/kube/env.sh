# env.sh: sourced by the scripts here: where things are. CACHE is kept between runs, KT is one cluster's and goes with it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CACHE=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/retake/kube} KT=${KT:-/tmp/retake-kube} VERSION=1.36.3
export IMG=${IMG:-$CACHE/img} H=$CACHE/hyperkube CNIBIN=$CACHE/cni/usr/lib/cni
