#!/usr/bin/env bash
# A Slurm of one node for tests, with GPUs that are only names.
#
#   tests/slurm/cluster.sh check      says what is missing where it cannot start here, and fails
#   tests/slurm/cluster.sh up         installs slurm-wlm and munge if need be, then starts the daemons
#   tests/slurm/cluster.sh down       stops them and removes their configuration
#
# STATE is where daemons keep their files. CPUS, MEMORY (MB) and GPUS are what the node claims to have; nothing enforces
# them. Each GPU is a character device of its own, or jobs would get no CUDA_VISIBLE_DEVICES.
set -euo pipefail
STATE=${STATE:-/tmp/ladder-slurm} CPUS=${CPUS:-32} MEMORY=${MEMORY:-512000} GPUS=${GPUS:-8}
CONF=/etc/slurm # the one place where job steps look: SLURM_CONF does not reach them
NODE=$(hostname -s)

fail() { echo "error: $*" >&2; exit 1; }

check() {
  [ "$(id -u)" = 0 ] || fail "a Slurm of its own needs root: run this in a container, or as root on a machine to spare"
  command -v apt-get >/dev/null || fail "the Slurm for tests is installed with apt-get: run this on Debian or Ubuntu"
  if [ -e $CONF/slurm.conf ] && [ "$(readlink $CONF/slurm.conf)" != "$STATE/slurm.conf" ]; then
    fail "$CONF/slurm.conf is there already: this machine belongs to a cluster, and its configuration is left alone"
  fi
}

packages() {
  dpkg -s slurm-wlm munge >/dev/null 2>&1 && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
}

configure() {
  mkdir -p "$STATE"/{ctld,slurmd,dev} $CONF
  chmod 755 "$STATE"
  for number in $(seq 0 $((GPUS - 1))); do
    [ -c "$STATE/dev/nvidia$number" ] || mknod -m 666 "$STATE/dev/nvidia$number" c 1 3
  done
  cat >"$STATE/slurm.conf" <<END
ClusterName=ladder
SlurmctldHost=$NODE
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$STATE/ctld
SlurmdSpoolDir=$STATE/slurmd
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd.pid
SlurmctldLogFile=$STATE/slurmctld.log
SlurmdLogFile=$STATE/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
MinJobAge=3600
KillWait=10
NodeName=$NODE NodeAddr=127.0.0.1 CPUs=$CPUS RealMemory=$MEMORY Gres=gpu:$GPUS State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  echo "AutoDetect=off" >"$STATE/gres.conf"
  echo "Name=gpu File=$STATE/dev/nvidia[0-$((GPUS - 1))] Flags=nvidia_gpu_env" >>"$STATE/gres.conf"
  ln -sf "$STATE"/{slurm,gres}.conf $CONF/
}

# A command that may take a while to succeed; its message, if it never does.
soon() {
  for _ in $(seq 120); do "$@" &>/dev/null && return; sleep 0.25; done
  "$@"
}

munge_up() {
  mkdir -p /run/munge /var/log/munge /var/lib/munge
  if [ ! -f /etc/munge/munge.key ]; then
    head -c 1024 /dev/urandom >/etc/munge/munge.key
    chmod 400 /etc/munge/munge.key
  fi
  chown munge: /run/munge /var/log/munge /var/lib/munge /etc/munge/munge.key
  munge -n &>/dev/null && return # one is running, and is not ours to stop
  runuser -u munge -- /usr/sbin/munged --force
  soon munge -n
  cp /run/munge/munged.pid "$STATE/munged.pid"
}

idle() { [ "$(sinfo -h -o %T)" = idle ]; }

up() {
  check
  packages
  stop
  configure
  munge_up
  slurmctld -c
  soon scontrol ping
  slurmd -c
  soon idle || { tail -n 20 "$STATE"/*.log >&2; fail "the node did not come up; the last lines of its logs are above"; }
  sinfo -N -o '%N %T: %c cores, %m MB, %G'
}

stop() {
  for daemon in slurmd slurmctld munged; do
    [ -f "$STATE/$daemon.pid" ] || continue
    process=$(cat "$STATE/$daemon.pid")
    kill "$process" 2>/dev/null || true
    for _ in $(seq 40); do kill -0 "$process" 2>/dev/null || break; sleep 0.25; done
    rm -f "$STATE/$daemon.pid"
  done
}

down() {
  check
  stop
  rm -f $CONF/slurm.conf $CONF/gres.conf
  [ ! -f "$STATE/slurm.conf" ] || rm -rf "$STATE"
}

case "${1:-}" in
  check | up | down) "$1" ;;
  *) fail "usage: tests/slurm/cluster.sh check|up|down" ;;
esac
