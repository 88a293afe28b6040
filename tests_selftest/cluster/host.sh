#!/bin/bash
# First process of one host: a machine of its own made of namespaces, with sshd as PID 1 at the end.
# Started by keeper.py in new network, PID, mount, UTS and IPC namespaces.
#   host.sh NAME PREFIXED_ADDRESS PORT FOLDER ROOT SIZE [HIDDEN...]
# FOLDER holds what the keeper made for this host (keys, hosts file); SIZE is its disk's, in MiB.
set -euo pipefail
name=$1 address=$2 port=$3 folder=$4 work=$5 size=$6
shift 6

hostname "$name"
disk=$folder/disk root=$folder/disk/root
mkdir -p "$disk"
mount -t tmpfs -o "size=${size}m,mode=755" lmsv-disk "$disk"
mkdir "$disk/upper" "$disk/scratch" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/scratch" "$root"
cp -p "$folder/key" "$root/etc/ssh/lmsv_host_key"
cp -p "$folder/key.pub" "$root/etc/ssh/lmsv_host_key.pub"
cp "$folder/../user.pub" "$root/etc/ssh/lmsv_authorized_keys"
cp "$folder/../hosts" "$root/etc/hosts"
mkdir -p "$root/root/.ssh"
mount -t tmpfs -o size=1m,mode=700 lmsv-ssh "$root/root/.ssh"
cp -p "$folder/../user" "$root/root/.ssh/id_ed25519"
cp "$folder/../user.pub" "$root/root/.ssh/id_ed25519.pub"
cp "$folder/../known_hosts" "$root/root/.ssh/known_hosts"
: >"$root/etc/resolv.conf" # no name server: an unknown name fails at once
: >"$root/root/.bashrc" # sshd's shells read it, and this machine's may be slow
mkdir -p "$root$work" "$root/run/sshd"
for hidden in "$folder/.." "$@"; do mount -t tmpfs -o size=1m lmsv-hidden "$root$(realpath "$hidden")"; done
while IFS=$'\t' read -r inside outside; do
  mkdir -p "$root$inside"
  mount --bind "$outside" "$root$inside"
done <"$folder/binds"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o size=2g lmsv-shm "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
cat >"$root/etc/ssh/lmsv_sshd_config" <<CONFIG
ListenAddress ${address%/*}
Port $port
HostKey /etc/ssh/lmsv_host_key
PidFile none
AuthorizedKeysFile /etc/ssh/lmsv_authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
MaxStartups 50:30:200
MaxSessions 50
UseDNS no
PrintMotd no
LogLevel VERBOSE
CONFIG

echo in # the namespaces are there: the keeper moves the network link in
read -r _
ip link set lo up
ip address add "$address" dev eth0
ip link set eth0 up
exec chroot "$root" /usr/sbin/sshd -D -f /etc/ssh/lmsv_sshd_config -E /var/log/lmsv_sshd.log
