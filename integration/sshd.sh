#!/usr/bin/env bash
# A throw-away sshd on loopback, for tests: host keys, user keys, configuration
# and the home directory of who logs in are in a directory of its own.
#
#   sshd.sh start   starts it, unless it runs, and prints environment lines:
#                     HERMES_EXEC_TEST_SSH_DIR     that directory
#                     HERMES_EXEC_TEST_SSH_CONFIG  an ssh_config that names its hosts
#   sshd.sh stop    stops what start has started, and nothing else
#
# With $HERMES_EXEC_TEST_SSH_FOR, a process id, it stops by itself when that
# process has ended, however it did.
#
# The directory is $HERMES_EXEC_TEST_SSH_DIR, else one per user in $TMPDIR. Root
# installs openssh-server where apt has it; it is not enabled. An ordinary user
# runs sshd, too, for himself. Where it cannot be, start says why and exits 3.
#
# The hosts:
#   hermes-test            as usual
#   hermes-test-noforward  forwards no Unix sockets
#   hermes-test-nosftp     has no sftp
#   hermes-test-bare       has a PATH with a few POSIX tools, and no python
#   hermes-test-noexec     has $DIR/noexec as home: a test mounts something there
#   hermes-test-ecdsa      is known by its second host key alone
#   hermes-test-unknown    is in no known_hosts
#   hermes-test-changed    shows another host key than known_hosts has
#   hermes-test-stranger   by a user key that the host does not take
#   hermes-test-locked     by a user key with a passphrase ("secret")
#   hermes-test-jump       through hermes-test
#   hermes-test-jump2      through hermes-test and hermes-test-noforward
#   hermes-test-silent     nobody listens there
set -euo pipefail

self=$(cd "$(dirname "$0")" && pwd)/sshd.sh
dir=${HERMES_EXEC_TEST_SSH_DIR:-${TMPDIR:-/tmp}/hermes-exec-sshd-$(id -u)}

cannot() {
	echo "sshd: $*" >&2
	exit 3
}

runs() { # runs NAME: the process of its pid file is this sshd
	local pid
	pid=$(cat "$dir/$1.pid" 2>/dev/null) || return 1
	[ -n "$pid" ] && ps -o args= -p "$pid" 2>/dev/null | grep -qF "$dir/$1.conf"
}

answer() {
	echo "HERMES_EXEC_TEST_SSH_DIR=$dir"
	echo "HERMES_EXEC_TEST_SSH_CONFIG=$dir/ssh_config"
}

install() {
	[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || cannot "no sshd: install openssh-server"
	echo "sshd: installing openssh-server" >&2
	local policy=/usr/sbin/policy-rc.d ours=
	if [ ! -e $policy ]; then # the package must not start a server of the machine's
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod 755 $policy
		ours=1
	fi
	export DEBIAN_FRONTEND=noninteractive
	local ok=1
	apt-get install -y -qq --no-install-recommends openssh-server >/dev/null 2>&1 ||
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends openssh-server; } >&2 || ok=
	[ -z "$ours" ] || rm -f $policy
	[ -n "$ok" ] || cannot "openssh-server cannot be installed"
}

find_sshd() {
	PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin command -v sshd || true
}

# boot NAME COUNT: an sshd with the configuration on stdin, in which @1@ … @N@
# become ports. It prints them.
boot() {
	local name=$1 count=$2 text ports conf i
	text=$(cat)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		ports=()
		conf=$text
		for ((i = 1; i <= count; i++)); do
			ports+=($((20000 + RANDOM % 12000)))
			conf=${conf//@$i@/${ports[i - 1]}}
		done
		printf '%s\n' "$conf" >"$dir/$name.conf"
		rm -f "$dir/$name.pid"
		setsid "$sshd" -D -f "$dir/$name.conf" -E "$dir/$name.log" </dev/null >/dev/null 2>&1 &
		local started=$!
		for _ in $(seq 100); do
			if [ -s "$dir/$name.pid" ] && runs "$name"; then
				if [ "$(grep -c '^Server listening on' "$dir/$name.log")" -ge "$count" ] && ! grep -q 'Bind to port' "$dir/$name.log"; then
					echo "${ports[@]}"
					return
				fi
				kill "$(cat "$dir/$name.pid")"
				break
			fi
			kill -0 "$started" 2>/dev/null || break
			sleep 0.02
		done
		mv "$dir/$name.log" "$dir/$name.log.failed" 2>/dev/null || true
	done
	cannot "$name does not start: $(tail -3 "$dir/$name.log.failed" 2>/dev/null)"
}

start() {
	if [ -f "$dir/ssh_config" ] && runs one && runs two; then
		answer
		return
	fi
	local user
	user=$(id -un 2>/dev/null) || cannot "uid $(id -u) has no account: nobody can log in"
	sshd=$(find_sshd)
	if [ -z "$sshd" ]; then
		install
		sshd=$(find_sshd)
	fi
	[ -n "$sshd" ] || cannot "no sshd"
	if [ "$(id -u)" -eq 0 ]; then
		mkdir -p /run/sshd # where it separates privileges
		chmod 755 /run/sshd
	fi
	stop
	(umask 077 && mkdir -p "$dir")
	[ -O "$dir" ] || cannot "$dir is somebody else's"
	rm -rf "${dir:?}"/bare "$dir"/*.pub "$dir"/key* "$dir"/host* "$dir"/known*
	mkdir -p "$dir/home" "$dir/noexec" "$dir/bare"
	local k
	for k in host_one:ed25519 host_one_ecdsa:ecdsa host_two:ed25519 key:ed25519 key_stranger:ed25519; do
		ssh-keygen -q -t "${k#*:}" -N '' -C hermes-exec-test -f "$dir/${k%:*}"
	done
	ssh-keygen -q -t ed25519 -N secret -a 1 -C hermes-exec-test -f "$dir/key_locked"
	cat "$dir/key.pub" "$dir/key_locked.pub" >"$dir/authorized_keys"
	for k in sh env cat grep uname mkdir mktemp rm chmod chown mv cp ls sleep id dd find head tail tr sed printf true false kill ps wc sha256sum cksum; do
		local at
		at=$(PATH=/usr/bin:/bin command -v "$k" || true)
		case $at in /*) ln -s "$at" "$dir/bare/$k" ;; esac
	done
	local shared="ListenAddress 127.0.0.1
AuthorizedKeysFile $dir/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PrintMotd no
PrintLastLog no
MaxStartups 100
LoginGraceTime 20"
	# An ordinary user's sshd cannot give a terminal to him, and dies of it.
	[ "$(id -u)" -eq 0 ] || shared="${shared/UsePAM no/PermitTTY no}"
	local env="SetEnv HOME=$dir/home"
	local one two
	one=($(boot one 4 <<-EOC
		Port @1@
		Port @2@
		Port @3@
		Port @4@
		PidFile $dir/one.pid
		HostKey $dir/host_one
		HostKey $dir/host_one_ecdsa
		Subsystem sftp internal-sftp
		$shared
		Match LocalPort @2@
		AllowStreamLocalForwarding no
		$env
		Match LocalPort @3@
		SetEnv HOME=$dir/home PATH=$dir/bare
		Match LocalPort @4@
		SetEnv HOME=$dir/noexec
		Match all
		$env
	EOC
	))
	two=($(boot two 1 <<-EOC
		Port @1@
		PidFile $dir/two.pid
		HostKey $dir/host_two
		$env
		$shared
	EOC
	))
	local p
	for p in "${one[@]}"; do
		echo "[127.0.0.1]:$p $(cut -d' ' -f1,2 "$dir/host_one.pub")"
		echo "[127.0.0.1]:$p $(cut -d' ' -f1,2 "$dir/host_one_ecdsa.pub")"
	done >"$dir/known_hosts"
	echo "[127.0.0.1]:${two[0]} $(cut -d' ' -f1,2 "$dir/host_two.pub")" >>"$dir/known_hosts"
	echo "[127.0.0.1]:${one[0]} $(cut -d' ' -f1,2 "$dir/host_one_ecdsa.pub")" >"$dir/known_ecdsa"
	echo "[127.0.0.1]:${two[0]} $(cut -d' ' -f1,2 "$dir/host_one.pub")" >"$dir/known_changed"
	: >"$dir/known_none"
	{
		echo "# made by sshd.sh"
		host() { # a key of its own or, IdentityFile adding up, the usual one
			printf '\nHost %s\n\tPort %s\n\t%s\n' "$@"
			case $3 in IdentityFile*) ;; *) printf '\tIdentityFile %s\n' "$dir/key" ;; esac
		}
		host hermes-test-unknown "${two[0]}" "UserKnownHostsFile $dir/known_none"
		host hermes-test-changed "${two[0]}" "UserKnownHostsFile $dir/known_changed"
		host hermes-test-ecdsa "${one[0]}" "UserKnownHostsFile $dir/known_ecdsa"
		host hermes-test-stranger "${one[0]}" "IdentityFile $dir/key_stranger"
		host hermes-test-locked "${one[0]}" "IdentityFile $dir/key_locked"
		host hermes-test-jump "${one[0]}" "ProxyJump hermes-test"
		host hermes-test-jump2 "${one[0]}" "ProxyJump hermes-test,hermes-test-noforward"
		host hermes-test-noforward "${one[1]}" "# no forwarding of Unix sockets"
		host hermes-test-bare "${one[2]}" "# no python"
		host hermes-test-noexec "${one[3]}" "# a home that a test mounts noexec"
		host hermes-test-nosftp "${two[0]}" "# no sftp"
		host hermes-test-silent 1 "# nobody listens"
		host hermes-test "${one[0]}" "# as usual"
		printf '\nHost hermes-test*\n'
		printf '\t%s\n' "HostName 127.0.0.1" "User $user" "IdentitiesOnly yes" "UserKnownHostsFile $dir/known_hosts"
	} >"$dir/ssh_config.new"
	mv "$dir/ssh_config.new" "$dir/ssh_config"
	if [ -n "${HERMES_EXEC_TEST_SSH_FOR:-}" ]; then
		HERMES_EXEC_TEST_SSH_DIR=$dir setsid "$self" watch "$HERMES_EXEC_TEST_SSH_FOR" </dev/null >/dev/null 2>&1 &
	fi
	answer
}

# The processes of open sessions go with their listener.
stop() {
	local name pid p
	for name in one two; do
		if runs "$name"; then
			pid=$(cat "$dir/$name.pid")
			for p in $(ps -A -o pid= -o ppid= | awk -v top="$pid" '
				{ parent[$1] = $2 }
				END { for (p in parent) { q = p; n = 0; while (q in parent && q > 1 && n++ < 64) { if (parent[q] == top) { print p; break } q = parent[q] } } }'); do
				case $(ps -o args= -p "$p" 2>/dev/null || true) in *sshd*) kill "$p" 2>/dev/null || true ;; esac
			done
			kill "$pid" 2>/dev/null || true
			for _ in $(seq 100); do
				kill -0 "$pid" 2>/dev/null || break
				sleep 0.02
			done
		fi
		rm -f "$dir/$name.pid"
	done
	rm -f "$dir/ssh_config"
}

locked() { # one at a time
	if command -v flock >/dev/null; then
		(umask 077 && mkdir -p "$dir")
		exec 9>"$dir.lock"
		flock 9
	fi
	"$@" 9>&-
}

case ${1:-} in
start) locked start ;;
stop)
	locked stop
	rm -rf "${dir:?}" "$dir.lock"
	;;
watch) # stop when the process has ended; a zombie has
	while [ -e "$dir/ssh_config" ] && ps -o stat= -p "$2" | grep -q '^[^Z]'; do sleep 0.5; done
	[ ! -e "$dir/ssh_config" ] || exec "$self" stop
	;;
*)
	echo "usage: $0 start|stop" >&2
	exit 2
	;;
esac
