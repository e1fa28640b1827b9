# env.sh: paths for the scripts in this folder, which source it. CACHE persists between runs. KT belongs to one cluster
# and is removed with it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CACHE=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/retake/kube} KT=${KT:-/tmp/retake-kube} VERSION=1.36.3
export IMG=${IMG:-$CACHE/img} H=$CACHE/hyperkube CNIBIN=$CACHE/cni/usr/lib/cni
